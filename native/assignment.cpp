// Assignment by augmenting row reduction and shortest augmenting paths: Jonker and Volgenant,
// Computing 38, 1987.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "rows.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Passes of row reduction: more leave fewer rows to the longer paths, and settle little by then.
constexpr int passes = 4;

template <class T>
class Assignment {
  public:
    Assignment(Int n, const T* cost, T* v, Int* column)
        : n_(n), cost_(cost), v_(v), column_(column), row_(n, -1) {
        std::fill(column, column + n, -1);
    }

    Effort solve() {
        Effort effort;
        std::vector<Int> left = take_least();
        for (int pass = 0; pass < passes && !left.empty(); ++pass) left = reduce(left, effort);
        effort.left = static_cast<Int>(left.size());
        augment(left, effort);
        return effort;
    }

  private:
    const T* costs(Int row) const { return cost_ + static_cast<std::size_t>(row) * n_; }

    // Every row takes its least column where that is free.
    std::vector<Int> take_least() {
        std::vector<Int> left;
        for (Int i = 0; i < n_; ++i) {
            const Int j = two_least(costs(i), v_, n_).at;
            if (row_[j] < 0) {
                row_[j] = i;
                column_[i] = j;
            } else {
                left.push_back(i);
            }
        }
        return left;
    }

    // Rows outbid one another: the price of the least column falls to where the second is as good.
    std::vector<Int> reduce(std::vector<Int>& rows, Effort& effort) {
        std::vector<Int> left;
        std::int64_t room = 4 * static_cast<std::int64_t>(rows.size()) + 64;
        for (std::size_t k = 0; k < rows.size();) {
            const Int i = rows[k];
            const Least<T> least = two_least(costs(i), v_, n_);
            ++effort.scans;
            const Int j = least.at, other = row_[j];
            const T lowered = v_[j] - (least.second - least.first);
            const bool lowers = lowered < v_[j];
            if (other >= 0 && !lowers) {
                left.push_back(i);
                ++k;
                continue;
            }
            if (lowers) v_[j] = lowered;
            column_[i] = j;
            row_[j] = i;
            if (other < 0) {
                ++k;
                continue;
            }
            column_[other] = -1;
            if (--room > 0) {
                rows[k] = other;
            } else {
                left.push_back(other);
                ++k;
            }
        }
        return left;
    }

    void augment(const std::vector<Int>& rows, Effort& effort) {
        const T far = far_away<T>();
        std::vector<T> d(n_), open(v_, v_ + n_), reached(n_);
        std::vector<Int> before(n_), done;
        for (const Int source : rows) {
            std::fill(d.begin(), d.end(), far);
            done.clear();
            T length = 0, own = two_least(costs(source), v_, n_).first;
            Int i = source, sink = -1;
            while (true) {
                const T best = relax(costs(i), open.data(), length - own, i, n_, d.data(), before.data());
                ++effort.scans;
                const Int j = place_of(best, d.data(), n_, [&](Int k) { return row_[k] < 0; });
                length = std::max(length, best);
                if (row_[j] < 0) {
                    sink = j;
                    break;
                }
                // A column that is done lies far away from now on.
                reached[j] = length;
                done.push_back(j);
                d[j] = far;
                open[j] = -far;
                i = row_[j];
                own = costs(i)[j] - v_[j];
            }
            for (const Int j : done) {
                v_[j] += reached[j] - length;
                open[j] = v_[j];
            }
            for (Int j = sink; j >= 0;) {
                const Int row = before[j];
                row_[j] = row;
                std::swap(column_[row], j);
                if (row == source) break;
            }
        }
    }

    Int n_;
    const T* cost_;
    T* v_;
    Int* column_;
    std::vector<Int> row_;
};

template <class T>
Effort assign(Int n, const T* cost, T* u, T* v, Int* column) {
    const Effort effort = Assignment<T>(n, cost, v, column).solve();
    for (Int i = 0; i < n; ++i)
        u[i] = two_least(cost + static_cast<std::size_t>(i) * n, v, n).first;
    return effort;
}

}  // namespace

Effort assign_double(Int n, const double* cost, double* u, double* v, Int* column) {
    return assign<double>(n, cost, u, v, column);
}

Effort assign_single(Int n, const float* cost, float* u, float* v, Int* column) {
    return assign<float>(n, cost, u, v, column);
}

bool settle(Int n, const double* cost, double* u, double* v, const Int* column) {
    const auto costs = [&](Int i) { return cost + static_cast<std::size_t>(i) * n; };
    std::vector<Int> row(n), queue(n), looks(n, 0);
    std::vector<char> waits(n, 1);
    double scale = 0.0;
    for (Int i = 0; i < n; ++i) {
        row[column[i]] = i;
        queue[i] = i;
        scale = std::max(scale, std::abs(costs(i)[column[i]]));
        scale = std::max(scale, std::abs(v[i]));
    }
    const double least = 4.0 * std::numeric_limits<double>::epsilon() * scale;
    constexpr Int W = lanes<double>();
    // Each look at a row settles one more edge of every shortest path; paths are short.
    constexpr Int most = 64;
    for (std::size_t next = 0; next < queue.size(); ++next) {
        const Int i = queue[next];
        waits[i] = 0;
        if (++looks[i] > most) return false;
        const double* c = costs(i);
        const double own = v[column[i]] - c[column[i]] + least;
        const auto lower = [&](Int j) {
            if (j == column[i] || c[j] + own >= v[j]) return;
            v[j] = c[j] + own - least;
            const Int k = row[j];
            if (!waits[k]) {
                waits[k] = 1;
                queue.push_back(k);
            }
        };
        Int j = 0;
        for (; j + W <= n; j += W) {
            int any = 0;
            for (Int k = 0; k < W; ++k) any |= c[j + k] + own < v[j + k];
            if (any)
                for (Int k = 0; k < W; ++k) lower(j + k);
        }
        for (; j < n; ++j) lower(j);
    }
    for (Int i = 0; i < n; ++i) u[i] = two_least(costs(i), v, n).first;
    return true;
}

Effort assign_mixed(Int n, const double* cost, double* u, double* v, Int* column) {
    const std::size_t cells = static_cast<std::size_t>(n) * n;
    std::unique_ptr<float[]> narrow(new float[cells]);
    double range = 0.0;
    for (Int i = 0; i < n; ++i) {
        const double* c = cost + static_cast<std::size_t>(i) * n;
        double low = c[0] - v[0], high = low;
        for (Int j = 0; j < n; ++j) {
            const double x = c[j] - v[j];
            low = low < x ? low : x;
            high = high > x ? high : x;
        }
        u[i] = low;
        range = std::max(range, high - low);
    }
    // The inverse of less is no number.
    const double unit = range > 4.0 * std::numeric_limits<double>::min() ? 1.0 / range : 0.0;
    for (Int i = 0; i < n; ++i) {
        const double* c = cost + static_cast<std::size_t>(i) * n;
        float* out = narrow.get() + static_cast<std::size_t>(i) * n;
        const double low = u[i];
        for (Int j = 0; j < n; ++j) out[j] = static_cast<float>((c[j] - v[j] - low) * unit);
    }
    std::vector<float> u_narrow(n), v_narrow(n, 0.0f);
    Effort effort = assign_single(n, narrow.get(), u_narrow.data(), v_narrow.data(), column);
    narrow.reset();
    std::vector<double> start(n);
    for (Int j = 0; j < n; ++j) start[j] = v[j] + range * static_cast<double>(v_narrow[j]);
    std::copy(start.begin(), start.end(), v);
    if (settle(n, cost, u, v, column)) return effort;
    // Costs that are alike to seven digits: what was found is where to start from.
    std::copy(start.begin(), start.end(), v);
    const Effort again = assign_double(n, cost, u, v, column);
    return {effort.scans + again.scans, again.left};
}

}  // namespace SILOT_SET
}  // namespace silot
