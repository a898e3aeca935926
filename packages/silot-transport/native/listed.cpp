// Transport of whole masses between clouds whose costs are never all held: every row keeps the
// columns of its least reduced costs, and a floor below which no other column was. The network
// simplex solves on these lists; new ones, at the potentials that it ends with, bound the optimum
// from below and say which cells it lacked.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "search.hpp"
#include "tree.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Columns that a row is offered at a time where its list has no room, and looked at for that.
constexpr Int offered = 8;
constexpr std::int64_t most_looked = 4096;
constexpr double far = std::numeric_limits<double>::max() / 4;

// Costs |x - y - shift|^order.
struct Points {
    const double *x, *y, *shift;
    Int d, order;

    double operator()(Int i, Int j) const {
        const double* SILOT_RESTRICT p = x + static_cast<std::size_t>(i) * d;
        const double* SILOT_RESTRICT q = y + static_cast<std::size_t>(j) * d;
        double sum = 0.0;
        for (Int k = 0; k < d; ++k) {
            const double difference = (p[k] - q[k]) - shift[k];
            sum += difference * difference;
        }
        return order == 2 ? sum : std::sqrt(sum);
    }
};

class Lists {
  public:
    Lists(Int n, Int m, Int k, const Points& points)
        : m_(m), size_(std::min(k, m)), points_(points), columns_(n), costs_(n), floor_(n, -far) {}

    void begin(const Int* rows, Int count) {
        rows_.assign(rows, rows + count);
        heaps_.resize(count);
        for (auto& heap : heaps_) heap.clear();
        bars_.assign(count, far);
    }

    // products: -2 <x, y> of some of the rows, `which`, with columns from `offset`, `width` of
    // them. Order 2: their value is products + column. Order 1: sqrt(products + column + base) +
    // price.
    template <class T>
    void block(const Int* which, Int count, const T* products, const T* column, const T* base,
               const T* price, Int width, Int offset) {
        constexpr Int W = static_cast<Int>(256 / sizeof(T));
        for (Int k = 0; k < count; ++k) {
            const std::size_t r = which[k];
            const T* SILOT_RESTRICT own = products + k * static_cast<std::size_t>(width);
            T bar = static_cast<T>(std::min(bars_[r], static_cast<double>(std::numeric_limits<T>::max())));
            for (Int start = 0; start < width; start += W) {
                const Int end = std::min(W, width - start);
                T value[W];
                int any = 0;
                if (points_.order == 2) {
                    for (Int j = 0; j < end; ++j) {
                        value[j] = own[start + j] + column[start + j];
                        any |= value[j] < bar;
                    }
                } else {
                    for (Int j = 0; j < end; ++j) {
                        const T square = own[start + j] + column[start + j] + base[k];
                        value[j] = std::sqrt(square > 0 ? square : T{0}) + price[start + j];
                        any |= value[j] < bar;
                    }
                }
                if (!any) continue;
                for (Int j = 0; j < end; ++j)
                    if (value[j] < bar) bar = keep(r, value[j], offset + start + j, bar);
            }
        }
    }

    // Values that no column which the rows' lists still take exceeds.
    void bars(double* out) {
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            cut(r);
            out[r] = bars_[r];
        }
    }

    // lift: what takes a value to a sound bound of cost plus price.
    void end(const double* lift) {
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            const Int i = rows_[r];
            cut(r);
            auto& heap = heaps_[r];
            std::sort(heap.begin(), heap.end(),
                      [](const Candidate& p, const Candidate& q) { return p.column < q.column; });
            fill(i, heap, bars_[r] + lift[r]);
        }
    }

    // The same of all these rows at once, by a tree, on so many threads: values are bounds up to
    // the rounding of a cost. Returns how many columns were looked at.
    std::int64_t search(const Int* rows, Int count, const double* price, Int threads) {
        rows_.assign(rows, rows + count);
        threads_ = threads;
        if (!tree_) {
            std::vector<double> y(static_cast<std::size_t>(m_) * points_.d);
            for (std::size_t k = 0; k < y.size(); ++k)
                y[k] = points_.y[k] + points_.shift[k % points_.d];
            tree_ = std::make_unique<PricedTree>(m_, points_.d, points_.order, y.data());
        }
        tree_->reprice(price);
        // One after the other neighbours look at the same boxes, which a cache then holds.
        std::vector<double> x(static_cast<std::size_t>(count) * points_.d);
        for (Int r = 0; r < count; ++r)
            std::copy_n(points_.x + static_cast<std::size_t>(rows[r]) * points_.d, points_.d,
                        x.begin() + static_cast<std::size_t>(r) * points_.d);
        const std::vector<Int> turn = PricedTree(count, points_.d, points_.order, x.data()).order();
        std::atomic<std::int64_t> looked{0};
        on_threads(count, threads, [&](Int begin, Int end) {
            Shortlist list;
            std::int64_t own = 0;
            for (Int k = begin; k < end; ++k) {
                const Int r = turn[k];
                list.clear(size_);
                own += tree_->search(x.data() + static_cast<std::size_t>(r) * points_.d, list);
                const auto& items = list.sorted();
                fill(rows[r], items, list.bar());
            }
            looked += own;
        });
        return looked;
    }

  protected:
    Int m_, size_;
    Points points_;
    std::vector<std::vector<Int>> columns_;
    std::vector<std::vector<double>> costs_;
    std::vector<double> floor_;
    Int threads_ = 1;

    const std::vector<Int>& scanned() const { return rows_; }

  private:
    void fill(Int i, const std::vector<Candidate>& items, double floor) {
        columns_[i].resize(items.size());
        costs_[i].resize(items.size());
        for (std::size_t u = 0; u < items.size(); ++u) {
            columns_[i][u] = items[u].column;
            costs_[i][u] = points_(i, items[u].column);
        }
        floor_[i] = static_cast<Int>(items.size()) == m_ ? far : floor;
    }

    template <class T>
    T keep(std::size_t r, T value, Int column, T bar) {
        auto& heap = heaps_[r];
        heap.push_back({static_cast<double>(value), column});
        if (heap.size() < 2 * static_cast<std::size_t>(size_)) return bar;
        cut(r);
        return static_cast<T>(bars_[r]);
    }

    void cut(std::size_t r) {
        auto& heap = heaps_[r];
        const std::size_t size = static_cast<std::size_t>(size_);
        if (heap.size() < size) return;
        std::nth_element(heap.begin(), heap.begin() + (size - 1), heap.end(), is_before);
        heap.resize(size);
        bars_[r] = heap.back().value;
    }

    std::vector<Int> rows_;
    std::vector<std::vector<Candidate>> heaps_;
    std::vector<double> bars_;
    std::unique_ptr<PricedTree> tree_;
};

class ListedSimplex final : public Listed, Lists, Tree<Points> {
  public:
    ListedSimplex(Int n, Int m, Int k, const Points& points, const Mass* a, const Mass* b,
                  const double* price)
        : Lists(n, m, k, points), Tree(n, m, points, a, b) {
        for (Int j = 0; j < m; ++j) potential_[n + j] = -price[j];
    }

    void lengthen() override { size_ = size_ < Lists::m_ / 2 ? 2 * size_ : Lists::m_; }
    void scan_begin(const Int* rows, Int count) override { begin(rows, count); }
    void scan_block(const Int* which, Int count, const float* products, const float* column,
                    const float* base, const float* price, Int width, Int offset) override {
        block(which, count, products, column, base, price, width, offset);
    }
    void scan_block(const Int* which, Int count, const double* products, const double* column,
                    const double* base, const double* price, Int width, Int offset) override {
        block(which, count, products, column, base, price, width, offset);
    }
    void scan_bars(double* out) override { bars(out); }
    void scan_end(const double* lift) override { end(lift); }
    std::int64_t scan_tree(const Int* rows, Int count, const double* price, Int threads) override {
        return search(rows, count, price, threads);
    }

    void prices(double* out) const override {
        for (Int j = 0; j < Tree::m_; ++j) out[j] = -potential_of(j);
    }

    double least(Int i) const override {
        double low = floor_[i];
        for (std::size_t u = 0; u < columns_[i].size(); ++u)
            low = std::min(low, costs_[i][u] - potential_of(columns_[i][u]));
        return low;
    }

    void solve(double enough, double seconds) override {
        const bool is_first = begin_.empty();
        begin_.assign(n_ + 1, 0);
        arcs_.clear();
        for (Int i = 0; i < n_; ++i) {
            if (is_first) potential_[i] = least(i);
            for (std::size_t u = 0; u < columns_[i].size(); ++u)
                arcs_.push_back({inner_[i], inner_[n_ + columns_[i][u]], costs_[i][u]});
            begin_[i + 1] = arcs_.size();
        }
        if (is_first)
            build_tree(plan_greedily([this](auto& rows, auto& open) { return offer(rows, open); }));
        refresh();
        pivot_on_lists(std::max<Int>(4, static_cast<Int>(std::sqrt(double(n_)) / 2)), true, enough,
                       seconds);
        refresh();
        centre();
    }

    // Pivots on the lists of the rows that were scanned last, the best first.
    void improve() override {
        std::vector<Arc> arcs;
        for (const Int i : scanned())
            for (std::size_t u = 0; u < columns_[i].size(); ++u)
                arcs.push_back({inner_[i], inner_[n_ + columns_[i][u]], costs_[i][u]});
        pivot_on(arcs);
        centre();
    }

    // Columns near each of these rows, among these.
    std::vector<Arc> offer(const std::vector<Int>& rows, const std::vector<Int>& open) const {
        const Int d = points_.d, count = static_cast<Int>(rows.size());
        const Int each = std::min<Int>(offered, static_cast<Int>(open.size()));
        std::vector<double> y(open.size() * d), price(open.size());
        for (std::size_t k = 0; k < open.size(); ++k) {
            for (Int c = 0; c < d; ++c)
                y[k * d + c] = points_.y[static_cast<std::size_t>(open[k]) * d + c] + points_.shift[c];
            price[k] = -potential_of(open[k]);
        }
        PricedTree tree(static_cast<Int>(open.size()), d, points_.order, y.data());
        tree.reprice(price.data());
        std::vector<Arc> arcs(static_cast<std::size_t>(count) * each, Arc{-1, -1, 0.0});
        on_threads(count, threads_, [&](Int begin, Int end) {
            Shortlist list;
            for (Int r = begin; r < end; ++r) {
                const Int i = rows[r];
                list.clear(each);
                tree.search(points_.x + static_cast<std::size_t>(i) * d, list, most_looked);
                Int e = r * each;
                for (const Candidate& item : list.sorted()) {
                    const Int j = open[item.column];
                    arcs[e++] = {i, n_ + j, points_(i, j)};
                }
            }
        });
        arcs.erase(std::remove_if(arcs.begin(), arcs.end(), [](const Arc& a) { return a.row < 0; }),
                   arcs.end());
        return arcs;
    }

    double potential_of(Int j) const { return potential_[inner_[n_ + j]]; }

    // Potentials of the columns are 0 in the mean: what all have in common would cost digits.
    void centre() {
        double mean = 0.0;
        for (Int j = 0; j < Tree::m_; ++j) mean += potential_of(j) / Tree::m_;
        for (Int x = 0; x < root_; ++x) potential_[x] += is_column_[x] ? -mean : mean;
    }

    Int cells(Cell* out) const override { return Tree::cells(out); }
    std::int64_t pivots() const override { return pivots_; }
};

}  // namespace

void least_costs(Int n, Int m, Int d, Int order, const double* x, const double* y,
                 const double* price, Int threads, double* least) {
    PricedTree tree(m, d, order, y);
    tree.reprice(price);
    on_threads(n, threads, [&](Int begin, Int end) {
        Shortlist list;
        for (Int i = begin; i < end; ++i) {
            list.clear(1);
            tree.search(x + static_cast<std::size_t>(i) * d, list);
            least[i] = list.bar();
        }
    });
}

Listed* listed(Int n, Int m, Int d, Int k, Int order, const double* x, const double* y,
               const double* shift, const Mass* a, const Mass* b, const double* price) {
    return new ListedSimplex(n, m, k, {x, y, shift, d, order}, a, b, price);
}

}  // namespace SILOT_SET
}  // namespace silot
