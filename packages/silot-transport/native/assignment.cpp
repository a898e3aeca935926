// Assignment by augmenting row reduction and shortest augmenting paths: Jonker and Volgenant,
// Computing 38, 1987.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Passes of row reduction: more leave fewer rows to the longer paths, and settle little by then.
constexpr int passes = 3;
// How often lists of cells are widened, and how many times longer than asked for the first may be:
// many costs may be alike.
constexpr int rounds = 8, longer = 4;
// Lists are no shorter way where they leave more than one row in so many without a path.
constexpr int few_lost = 64;
// Costs are tied where one row in so many has two least columns.
constexpr int many_ties = 8;
// Cells of a group of which one is listed at first.
constexpr Int depth = 8;

// The least cells of each row.
template <class T>
class Lists {
  public:
    Lists(Int n, const T* cost, const T* v, Int cells)
        : n_(n), cost_(cost), most_(0), begin_(n), end_(n) {
        for (Int i = 0; i < n; ++i) fill(i, v, cells);
        most_ = columns_.size() + std::size_t(n) * n / 8;
    }

    // Lists beyond this part of the matrix are no shorter way.
    bool full() const { return columns_.size() > most_; }

    // Lists those cells of a row too whose reduced costs are below `level`.
    void widen(Int i, const T* SILOT_RESTRICT v, T level) {
        const T* SILOT_RESTRICT c = costs(i);
        const std::size_t begin = columns_.size();
        for (std::size_t k = begin_[i]; k < end_[i]; ++k) {
            const Int j = columns_[k];
            if (!(c[j] - v[j] < level)) add(j, c[j]);
        }
        for (Int j = 0; j < n_; ++j)
            if (c[j] - v[j] < level) add(j, c[j]);
        begin_[i] = begin;
        end_[i] = columns_.size();
    }

    std::size_t begin(Int i) const { return begin_[i]; }
    std::size_t end(Int i) const { return end_[i]; }
    Int column(std::size_t k) const { return columns_[k]; }
    T cost(std::size_t k) const { return costs_[k]; }

    Least<T> two_least(Int i, const T* v) const {
        T first = std::numeric_limits<T>::max(), second = first;
        Int at = columns_[begin(i)];
        for (std::size_t k = begin(i); k < end(i); ++k) {
            const T x = costs_[k] - v[columns_[k]];
            if (x < first) at = columns_[k];
            second = x < first ? first : std::min(second, x);
            first = std::min(first, x);
        }
        // A column that is the only one is taken at its price.
        return {first, end(i) - begin(i) > 1 ? second : first, at};
    }

    // A column of this reduced cost that no row has, or -1.
    Int free_at(Int i, const T* v, T level, const std::vector<Int>& row) const {
        for (std::size_t k = begin(i); k < end(i); ++k)
            if (row[columns_[k]] < 0 && costs_[k] - v[columns_[k]] <= level) return columns_[k];
        return -1;
    }

  private:
    const T* costs(Int i) const { return cost_ + static_cast<std::size_t>(i) * n_; }

    void add(Int j, T cost) {
        columns_.push_back(j);
        costs_.push_back(cost);
    }

    // The least cells of a row: those below the least ones of many groups of its cells. The groups
    // of a stretch take turns, so that wide registers take one cell of each at once.
    void fill(Int i, const T* SILOT_RESTRICT v, Int cells) {
        constexpr Int W = lanes<T>(), stretch = depth * W;
        const T* SILOT_RESTRICT c = costs(i);
        const Int stretches = (n_ + stretch - 1) / stretch;
        least_.assign(static_cast<std::size_t>(stretches) * W, far_away<T>());
        for (Int s = 0; s < stretches; ++s) {
            T low[W];
            std::fill(low, low + W, far_away<T>());
            Int j = s * stretch;
            const Int end = std::min(n_, j + stretch);
            for (; j + W <= end; j += W)
                for (Int k = 0; k < W; ++k) {
                    const T x = c[j + k] - v[j + k];
                    low[k] = x < low[k] ? x : low[k];
                }
            for (Int k = 0; j + k < end; ++k) low[k] = std::min(low[k], c[j + k] - v[j + k]);
            std::copy(low, low + W, least_.data() + s * W);
        }
        sorted_ = least_;
        const Int groups = stretches * W;
        const auto last = sorted_.begin() + std::min({cells, groups, n_}) - 1;
        std::nth_element(sorted_.begin(), last, sorted_.end());
        begin_[i] = columns_.size();
        const std::size_t most = begin_[i] + std::size_t(longer) * cells;
        // Each row from another place on: rows that find all columns alike list others.
        Int g = static_cast<Int>(std::int64_t{i} * groups / n_);
        for (Int count = 0; count < groups && columns_.size() < most; ++count) {
            if (least_[g] <= *last) {
                const Int begin = g / W * stretch, end = std::min(n_, begin + stretch);
                for (Int j = begin + g % W; j < end; j += W)
                    if (c[j] - v[j] <= *last) add(j, c[j]);
            }
            g = g + 1 < groups ? g + 1 : 0;
        }
        end_[i] = columns_.size();
    }

    Int n_;
    const T* cost_;
    std::size_t most_;
    std::vector<std::size_t> begin_, end_;
    std::vector<Int> columns_;
    std::vector<T> costs_, least_, sorted_;
};

// All cells of each row.
template <class T>
class Whole {
  public:
    Whole(Int n, const T* cost) : n_(n), cost_(cost) {}

    Least<T> two_least(Int i, const T* v) const {
        return SILOT_SET::two_least(cost_ + static_cast<std::size_t>(i) * n_, v, n_);
    }

    Int free_at(Int i, const T* v, T level, const std::vector<Int>& row) const {
        const T* c = cost_ + static_cast<std::size_t>(i) * n_;
        const Int* taken = row.data();
        const Int j = first_place<T>(
            0, n_, [=](Int k) { return (c[k] - v[k] <= level) & (taken[k] < 0); });
        return j < n_ ? j : -1;
    }

  private:
    Int n_;
    const T* cost_;
};

template <class T>
class Assignment {
  public:
    Assignment(Int n, const T* cost, T* v, Int* column)
        : n_(n), cost_(cost), v_(v), column_(column), row_(n, -1) {
        std::fill(column, column + n, -1);
    }

    // Where the first passes leave more rows than `most`, only the prices they made are of use.
    Effort solve(Int most) {
        Effort effort;
        const std::vector<Int> left = settle_most(Whole<T>(n_, cost_), effort);
        if (effort.left <= most) augment(left, effort);
        return effort;
    }

    // Few cells matter, and paths among them are found without reading the others. False where
    // the cells that seemed least are not those that matter: then nothing of use is found.
    bool solve_listed(Int cells, Effort& effort) {
        Lists<T> lists(n_, cost_, v_, cells);
        std::vector<Int> left = settle_most(lists, effort);
        std::int64_t room = static_cast<std::int64_t>(n_) * n_ / 2;
        for (int round = 0; round < rounds; ++round) {
            if (2 * left.size() > static_cast<std::size_t>(n_) || lists.full()) return false;
            left = augment(lists, left, room);
            if (room < 0) return false;
            const std::size_t lost = left.size();
            left = free_misled(lists, left);
            // No row was misled, and those that are left have no path on any list.
            if (left.size() == lost) break;
        }
        if (few_lost * left.size() > static_cast<std::size_t>(n_)) return false;
        augment(left, effort);
        return true;
    }

  private:
    const T* costs(Int row) const { return cost_ + static_cast<std::size_t>(row) * n_; }

    template <class Cells>
    std::vector<Int> settle_most(const Cells& cells, Effort& effort) {
        std::vector<Int> left = take_least(cells);
        for (int pass = 0; pass < passes && !left.empty(); ++pass)
            left = reduce(left, cells, effort);
        effort.left = static_cast<Int>(left.size());
        return left;
    }

    // The least column of a row, and one that no row has where several are alike.
    template <class Cells>
    Least<T> look(Int i, const Cells& cells) const {
        Least<T> least = cells.two_least(i, v_);
        if (row_[least.at] >= 0 && least.second <= least.first) {
            const Int free = cells.free_at(i, v_, least.first, row_);
            if (free >= 0) least.at = free;
        }
        return least;
    }

    // Every row takes its least column where that is free.
    template <class Cells>
    std::vector<Int> take_least(const Cells& cells) {
        std::vector<Int> left;
        Int ties = 0;
        for (Int i = 0; i < n_; ++i) {
            const Least<T> least = look(i, cells);
            const Int j = least.at;
            ties += least.second <= least.first;
            if (row_[j] < 0) {
                row_[j] = i;
                column_[i] = j;
            } else {
                left.push_back(i);
            }
        }
        tied_ = many_ties * ties > n_;
        return left;
    }

    // Rows outbid one another: the price of the least column falls to where the second is as good.
    template <class Cells>
    std::vector<Int> reduce(std::vector<Int>& rows, const Cells& cells, Effort& effort) {
        std::vector<Int> left;
        std::int64_t room = 4 * static_cast<std::int64_t>(rows.size()) + 64;
        for (std::size_t k = 0; k < rows.size();) {
            const Int i = rows[k];
            const Least<T> least = look(i, cells);
            ++effort.scans;
            const Int j = least.at, other = row_[j];
            const T lowered = v_[j] - (least.second - least.first);
            const bool lowers = lowered < v_[j];
            if (lowers) v_[j] = lowered;
            column_[i] = j;
            row_[j] = i;
            if (other < 0) {
                ++k;
                continue;
            }
            column_[other] = -1;
            if (lowers && --room > 0) {
                rows[k] = other;
            } else {
                left.push_back(other);
                ++k;
            }
        }
        return left;
    }

    // Shortest paths over the listed cells, while they look at no more than `room` of them. Returns
    // the rows that none leads on from.
    std::vector<Int> augment(const Lists<T>& lists, const std::vector<Int>& rows,
                             std::int64_t& room) {
        using Entry = std::pair<T, Int>;
        const T far = far_away<T>();
        std::vector<T> d(n_, far);
        std::vector<Int> before(n_), done, touched, lost;
        std::vector<char> closed(n_, 0);
        std::vector<Entry> heap;
        for (const Int source : rows) {
            done.clear();
            touched.clear();
            heap.clear();
            T length = 0, own = lists.two_least(source, v_).first;
            Int i = source, sink = -1;
            while (room >= 0) {
                const T shift = length - own;
                for (std::size_t k = lists.begin(i); k < lists.end(i); ++k) {
                    const Int j = lists.column(k);
                    const T over = std::max((lists.cost(k) - v_[j]) + shift, length);
                    if (closed[j] || !(over < d[j])) continue;
                    if (d[j] == far) touched.push_back(j);
                    d[j] = over;
                    before[j] = i;
                    if (over <= length && row_[j] < 0) {
                        sink = j;
                        break;
                    }
                    --room;
                    heap.emplace_back(over, j);
                    std::push_heap(heap.begin(), heap.end(), std::greater<Entry>());
                }
                if (sink >= 0) break;
                Int j = -1;
                while (!heap.empty() && j < 0) {
                    std::pop_heap(heap.begin(), heap.end(), std::greater<Entry>());
                    if (!closed[heap.back().second]) j = heap.back().second;
                    heap.pop_back();
                }
                if (j < 0) break;
                length = d[j];
                if (row_[j] < 0) {
                    sink = j;
                    break;
                }
                closed[j] = 1;
                done.push_back(j);
                i = row_[j];
                own = costs(i)[j] - v_[j];
            }
            if (sink < 0) lost.push_back(source);
            for (const Int j : done) {
                if (sink >= 0) v_[j] += d[j] - length;
                closed[j] = 0;
            }
            for (const Int j : touched) d[j] = far;
            if (sink >= 0) lead(source, sink, before);
        }
        return lost;
    }

    // Frees rows that would rather have a column that is not on their list, and lists it. Returns
    // all that are left now.
    std::vector<Int> free_misled(Lists<T>& lists, std::vector<Int> left) {
        const T rounding = 4 * std::numeric_limits<T>::epsilon();
        for (Int i = 0; i < n_; ++i) {
            const Int j = column_[i];
            if (j < 0) continue;
            const T own = costs(i)[j] - v_[j];
            const T size = std::max(std::abs(costs(i)[j]), std::abs(v_[j]));
            if (two_least(costs(i), v_, n_).first < own - rounding * size) {
                column_[i] = row_[j] = -1;
                left.push_back(i);
                if (!lists.full()) lists.widen(i, v_, own);
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
                const Int j = place_of(best, d.data(), n_, row_.data(), tied_);
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
            lead(source, sink, before);
        }
    }

    // Every row on the path takes the column that was found from it.
    void lead(Int source, Int sink, const std::vector<Int>& before) {
        for (Int j = sink; j >= 0;) {
            const Int row = before[j];
            row_[j] = row;
            std::swap(column_[row], j);
            if (row == source) break;
        }
    }

    Int n_;
    const T* cost_;
    T* v_;
    Int* column_;
    std::vector<Int> row_;
    bool tied_ = false;  // many rows find several columns alike
};

template <class T>
void least_reduced(Int n, const T* cost, T* u, const T* v) {
    for (Int i = 0; i < n; ++i)
        u[i] = two_least(cost + static_cast<std::size_t>(i) * n, v, n).first;
}

template <class T>
Effort assign_all(Int n, const T* cost, Int most, T* u, T* v, Int* column) {
    const Effort effort = Assignment<T>(n, cost, v, column).solve(most);
    if (effort.left <= most) least_reduced(n, cost, u, v);
    return effort;
}

}  // namespace

Effort assign(Int n, const double* cost, Int most, double* u, double* v, Int* column) {
    return assign_all<double>(n, cost, most, u, v, column);
}

bool settle(Int n, const double* cost, double* u, double* v, const Int* column) {
    const auto costs = [&](Int i) { return cost + static_cast<std::size_t>(i) * n; };
    std::vector<Int> row(n), looks(n, 0);
    double scale = 0.0;
    for (Int i = 0; i < n; ++i) {
        row[column[i]] = i;
        scale = std::max(scale, std::abs(costs(i)[column[i]]));
        scale = std::max(scale, std::abs(v[i]));
    }
    const double least = 4.0 * std::numeric_limits<double>::epsilon() * scale;
    // How long the path to the column of each row is, by reduced costs, where it was not looked at
    // since. Where u is optimal no path is shortened later, as Dijkstra saw.
    const double far = far_away<double>();
    const std::vector<double> none(n, 0.0);
    std::vector<double> reach(n);
    const auto wait = [&](Int i) { reach[i] = v[column[i]] - costs(i)[column[i]] + u[i]; };
    for (Int i = 0; i < n; ++i) wait(i);
    // Each look at a row settles one more edge of every shortest path; paths are short.
    constexpr int most = 64;
    while (true) {
        const Least<double> next = two_least(reach.data(), none.data(), n);
        if (next.first >= far) break;
        const Int i = next.at;
        reach[i] = far;
        if (++looks[i] > most) return false;
        const double* c = costs(i);
        const double own = v[column[i]] - c[column[i]] + least;
        const auto lower = [&](Int j) {
            if (j == column[i]) return;
            v[j] = c[j] + own - least;
            wait(row[j]);
        };
        const auto lowers = [=](Int j) { return c[j] + own < v[j]; };
        for (Int j = first_place<double>(0, n, lowers); j < n;
             j = first_place<double>(j + 1, n, lowers))
            lower(j);
    }
    least_reduced(n, cost, u, v);
    return true;
}

bool assign_listed(Int n, const double* cost, Int cells, double* u, double* v, Int* column,
                   Effort* effort) {
    const std::vector<double> start(v, v + n);
    const bool found = Assignment<double>(n, cost, v, column).solve_listed(cells, *effort);
    if (found)
        least_reduced(n, cost, u, v);
    else
        std::copy(start.begin(), start.end(), v);
    return found;
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
    const Effort effort =
        assign_all<float>(n, narrow.get(), n, u_narrow.data(), v_narrow.data(), column);
    narrow.reset();
    std::vector<double> start(n);
    for (Int j = 0; j < n; ++j) {
        start[j] = v[j] + range * static_cast<double>(v_narrow[j]);
        u[j] += range * static_cast<double>(u_narrow[j]);
    }
    std::copy(start.begin(), start.end(), v);
    if (settle(n, cost, u, v, column)) return effort;
    // Costs that are alike to seven digits: what was found is where to start from.
    std::copy(start.begin(), start.end(), v);
    const Effort again = assign(n, cost, n, u, v, column);
    return {effort.scans + again.scans, effort.left};
}

}  // namespace SILOT_SET
}  // namespace silot
