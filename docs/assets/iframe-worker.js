// Search in pages that were opened as files: browsers start no worker there, so its script runs in
// a hidden frame, which sends and gets messages as a worker does.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.documentElement.append(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      }
      const script = this.inner.document.createElement("script")
      script.src = new URL(url, location).href
      script.onload = () => {
        this.ready = true
        this.waiting.splice(0).forEach(data => this.deliver(data))
      }
      this.inner.document.body.append(script)
    }

    postMessage(data) {
      if (this.ready) this.deliver(data)
      else this.waiting.push(data)
    }

    deliver(data) {
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }))
    }
  }
}
