// Many small problems, one at a time in memory that all of them use: distributions over few labels
// that share one metric, by shortest augmenting paths; and clouds of as many points, as assignments.
#include <algorithm>
#include <vector>

#include "rows.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Searches for every label before a problem is given up.
constexpr Int most_searches = 64;

class Labels {
  public:
    Labels(Int size, const double* cost)
        : size_(size), cost_(cost), wide_(std::size_t(size) * padded(size)),
          mass_(std::size_t(size) * size), rows_(std::size_t(size) * size), count_(size),
          left_(size), room_(size), sources_(size), sinks_(size), seen_(size), before_(padded(size)),
          via_(size), done_(size), ends_(size), v_(padded(size)), open_(padded(size)), d_(padded(size)),
          reached_(padded(size)), zeros_(padded(size)), places_(padded(size)) {
        for (std::size_t k = 0; k < places_.size(); ++k) places_[k] = static_cast<double>(k);
    }

    // Potentials f with f_i - f_j <= cost_ij that are best for masses `change` that sum to 0.
    // Returns what a flow costs for each unit of mass: theirs where it is optimal.
    double solve(const double* change, double* f) {
        std::fill(f, f + size_, 0.0);
        if (!sides(change)) return 0.0;
        const bool ended = ship();
        // The highest that sinks allow, at every label.
        for (Int i = 0; i < size_; ++i) {
            f[i] = least(wide(i), v_.data());
        }
        return ended ? paid() : far_away<double>();
    }

  private:
    static std::size_t padded(Int count) { return std::size_t(count + 7) / 8 * 8; }

    const double* wide(Int label) const { return wide_.data() + std::size_t(label) * width_; }
    double& mass(Int row, Int j) { return mass_[std::size_t(j) * size_ + row]; }
    Int* rows(Int j) { return rows_.data() + std::size_t(j) * size_; }

    bool sides(const double* change) {
        n_ = m_ = 0;
        double out = 0.0, in = 0.0;
        for (Int i = 0; i < size_; ++i) {
            if (change[i] > 0) {
                sources_[n_] = i;
                left_[n_++] = change[i];
                out += change[i];
            } else if (change[i] < 0) {
                sinks_[m_] = i;
                room_[m_++] = -change[i];
                in -= change[i];
            }
        }
        if (n_ == 0 || m_ == 0) return false;
        // Each side by itself: where hardly any mass moves, rounding leaves them unlike.
        for (Int i = 0; i < n_; ++i) left_[i] /= out;
        for (Int j = 0; j < m_; ++j) room_[j] /= in;
        const double far = far_away<double>();
        width_ = padded(m_);
        for (Int i = 0; i < size_; ++i) {
            const double* c = cost_ + std::size_t(i) * size_;
            double* w = wide_.data() + std::size_t(i) * width_;
            for (Int j = 0; j < m_; ++j) w[j] = c[sinks_[j]];
            std::fill(w + m_, w + width_, far);
        }
        std::fill(count_.begin(), count_.begin() + m_, 0);
        std::fill(v_.begin(), v_.end(), 0.0);
        return true;
    }

    bool ship() {
        const Int width = static_cast<Int>(width_);
        Int open = m_;
        double* v = v_.data();
        std::fill(v, v + width, far_away<double>());
        for (Int i = 0; i < n_; ++i) {
            const double* c = wide(sources_[i]);
            for (Int j = 0; j < width; ++j) v[j] = std::min(v[j], c[j]);
        }
        std::fill(v + m_, v + width, 0.0);
        for (Int i = 0; i < n_; ++i) {
            const Int j = two_least(wide(sources_[i]), v, width).at;
            const double sent = std::min(left_[i], room_[j]);
            if (sent > 0.0) send(i, j, sent, open);
        }
        open_ = v_;
        std::int64_t searches = std::int64_t{most_searches} * size_;
        for (Int i = 0; i < n_; ++i)
            while (left_[i] > 0.0 && open > 0) {
                if (--searches < 0) return false;
                paths(i, open);
            }
        return true;
    }

    void send(Int i, Int j, double sent, Int& open) {
        left_[i] -= sent;
        room_[j] -= sent;
        open -= !(room_[j] > 0.0);
        add(i, j, sent);
    }

    // Shortest paths from a source to as many sinks as could take what it has left; then as much
    // along each as it bears.
    void paths(Int source, Int& open) {
        const Int width = static_cast<Int>(width_);
        const double far = far_away<double>();
        std::fill(d_.begin(), d_.begin() + width, far);
        std::fill(seen_.begin(), seen_.begin() + n_, 0);
        Int done = 0, ends = 0;
        double length = 0.0, wanted = left_[source];
        via_[source] = -1;
        seen_[source] = 1;
        double best = look(source, -least(wide(sources_[source]), v_.data()));
        while (true) {
            const Int j = first(best);
            length = std::max(length, best);
            reached_[j] = length;
            done_[done++] = j;
            if (room_[j] > 0.0) {
                ends_[ends++] = j;
                wanted -= room_[j];
                if (!(wanted > 0.0) || ends == open) break;
            }
            d_[j] = far;
            open_[j] = -far;
            bool looked = false;
            for (Int k = 0; k < count_[j]; ++k) {
                const Int row = rows(j)[k];
                if (seen_[row]) continue;
                seen_[row] = 1;
                via_[row] = j;
                best = look(row, length - (wide(sources_[row])[j] - v_[j]));
                looked = true;
            }
            if (looked) continue;
            best = least(d_.data(), zeros_.data());
        }
        for (Int k = 0; k < done; ++k) {
            const Int j = done_[k];
            v_[j] += reached_[j] - length;
            open_[j] = v_[j];
        }
        for (Int k = 0; k < ends; ++k) push(source, ends_[k], open);
    }

    void push(Int source, Int sink, Int& open) {
        double sent = std::min(left_[source], room_[sink]);
        for (Int row = before_[sink]; via_[row] >= 0; row = before_[via_[row]])
            sent = std::min(sent, sent_by(row, via_[row]));
        if (!(sent > 0.0)) return;
        left_[source] -= sent;
        room_[sink] -= sent;
        open -= !(room_[sink] > 0.0);
        for (Int j = sink;;) {
            const Int row = before_[j];
            add(row, j, sent);
            j = via_[row];
            if (j < 0) return;
            take_back(row, j, sent);
        }
    }

    double sent_by(Int row, Int j) {
        const Int *all = rows(j), *end = all + count_[j];
        return std::find(all, end, row) == end ? 0.0 : mass(row, j);
    }

    // Rows here are short: whole registers, and no branch.
    double least(const double* SILOT_RESTRICT c, const double* SILOT_RESTRICT v) const {
        const Int width = static_cast<Int>(width_);
        double best = far_away<double>();
        for (Int k = 0; k < width; ++k) {
            const double x = c[k] - v[k];
            best = best < x ? best : x;
        }
        return best;
    }

    Int first(double value) const {
        const Int width = static_cast<Int>(width_);
        const double *d = d_.data(), *place = places_.data();
        double at = size_;
        for (Int k = 0; k < width; ++k) {
            const double x = d[k] <= value ? place[k] : double(size_);
            at = at < x ? at : x;
        }
        return static_cast<Int>(at);
    }

    double look(Int row, double shift) {
        return relax(wide(sources_[row]), open_.data(), shift, row, static_cast<Int>(width_),
                     d_.data(), before_.data());
    }

    void add(Int row, Int j, double sent) {
        Int* all = rows(j);
        for (Int k = 0; k < count_[j]; ++k)
            if (all[k] == row) {
                mass(row, j) += sent;
                return;
            }
        all[count_[j]++] = row;
        mass(row, j) = sent;
    }

    void take_back(Int row, Int j, double sent) {
        mass(row, j) -= sent;
        if (mass(row, j) > 0.0) return;
        Int* all = rows(j);
        Int k = 0;
        while (all[k] != row) ++k;
        all[k] = all[--count_[j]];
    }

    double paid() {
        double sum = 0.0;
        for (Int j = 0; j < m_; ++j)
            for (Int k = 0; k < count_[j]; ++k) {
                const Int row = rows(j)[k];
                sum += mass(row, j) * wide(sources_[row])[j];
            }
        return sum;
    }

    Int size_, n_ = 0, m_ = 0;
    std::size_t width_ = 0;
    const double* cost_;
    std::vector<double> wide_, mass_;
    std::vector<Int> rows_, count_;
    std::vector<double> left_, room_;
    std::vector<Int> sources_, sinks_;
    std::vector<char> seen_;
    std::vector<Int> before_, via_, done_, ends_;
    std::vector<double> v_, open_, d_, reached_, zeros_, places_;
};

}  // namespace

void labels(std::int64_t count, Int size, const double* cost, const double* change, double* f,
            double* paid) {
    Labels labels(size, cost);
    for (std::int64_t k = 0; k < count; ++k)
        paid[k] = labels.solve(change + k * size, f + k * size);
}

Effort assign(Int, const double*, Int, double*, double*, Int*);

void clouds(std::int64_t count, Int n, Int d, const double* x, const double* y, double* mean) {
    const std::size_t wide = n, deep = d, size = wide * deep;
    std::vector<double> cost(wide * wide), turned(size), u(n), v(n);
    std::vector<Int> column(n);
    for (std::int64_t k = 0; k < count; ++k, x += size, y += size) {
        for (std::size_t j = 0; j < wide; ++j)
            for (std::size_t c = 0; c < deep; ++c) turned[c * wide + j] = y[j * deep + c];
        for (Int i = 0; i < n; ++i) {
            double* SILOT_RESTRICT row = cost.data() + i * wide;
            std::fill(row, row + n, 0.0);
            for (std::size_t c = 0; c < deep; ++c) {
                const double here = x[i * deep + c];
                const double* SILOT_RESTRICT there = turned.data() + c * wide;
                for (Int j = 0; j < n; ++j) {
                    const double apart = here - there[j];
                    row[j] += apart * apart;
                }
            }
            for (Int j = 0; j < n; ++j) v[j] = i == 0 || row[j] < v[j] ? row[j] : v[j];
        }
        assign(n, cost.data(), n, u.data(), v.data(), column.data());
        double sum = 0.0;
        for (Int i = 0; i < n; ++i) sum += cost[i * wide + column[i]];
        mean[k] = sum / n;
    }
}

}  // namespace SILOT_SET
}  // namespace silot
