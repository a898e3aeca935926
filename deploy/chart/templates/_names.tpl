{{- define "silot.labels" -}}
app.kubernetes.io/name: silot
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.role }}
{{- end }}

{{- define "silot.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag }}{{ end }}
{{- end }}

{{- define "silot.claim" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: {{ .name }}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .volume.storageClass }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources:
      requests:
        storage: {{ .volume.size }}
{{- end }}

{{- define "silot.container" -}}
image: {{ include "silot.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  # A pod has a new name and address at each start: the server knows a copy of a kit by its place.
  - name: SILOT_PLACE
    value: {{ printf "%s/%s" .Release.Namespace .Release.Name | quote }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: ledger, mountPath: /srv/member}
  - {name: state, mountPath: /srv/state}
  - {name: kit, mountPath: /srv/secret, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- if eq .Values.role "site" }}
  - {name: records, mountPath: /srv/records, readOnly: true}
  {{- end }}
{{- end }}
