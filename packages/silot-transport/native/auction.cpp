// Transport of whole masses between clouds whose costs are never all held: every row keeps the
// columns of its least cost plus price, and a floor below which no other column was. Prices only
// rise, so a floor holds until the row is scanned again. An auction (Bertsekas, Annals of Operations
// Research 14, 1988) brings prices close; shortest augmenting paths on the lists then end it.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

constexpr double far = std::numeric_limits<double>::max() / 4;
constexpr Int nobody = -1;
// Of one step of prices: a bid that would raise less waits for a new scan.
constexpr double least_raise = 0.25;
// Rows that bids wait for. Where the list of one row ends paths begin anew, so that others are
// scanned with it: a part of all.
constexpr std::size_t most_scans = 256, part_scanned = 64, fewest_scanned = 16;
constexpr std::int64_t most_bids = 64;
// Scans after which a list becomes twice as long, and how many times longer all may become.
constexpr Int scans_a_length = 4;
constexpr std::int64_t most_growth = 3;

// Mass of a column that a row has at a price.
struct Part {
    Int row;
    Mass mass;
    double price, cost;
};

struct Candidate {
    double value;
    Int column;
};

struct Event {
    double length;
    Int place;  // a column, or m + a row whose floor is reached
    bool operator<(const Event& other) const {
        return length > other.length || (length == other.length && mixed() > other.mixed());
    }
    // Of places as near, any order but their own: neighbours would be taken by paths from one row.
    std::uint32_t mixed() const { return static_cast<std::uint32_t>(place) * 2654435761u; }
};

class Lists {
  public:
    Lists(Int n, Int m, Int d, Int k, Int order, const double* x, const double* y,
          const double* shift)
        : n_(n), m_(m), d_(d), order_(order), x_(x), y_(y), shift_(shift), columns_(n), costs_(n),
          floor_(n, -far), size_(n, std::min(k, m)) {}

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
                if (order_ == 2) {
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
            columns_[i].resize(heap.size());
            costs_[i].resize(heap.size());
            for (std::size_t u = 0; u < heap.size(); ++u) {
                columns_[i][u] = heap[u].column;
                costs_[i][u] = cost(i, heap[u].column);
            }
            floor_[i] = static_cast<Int>(heap.size()) == m_ ? far : bars_[r] + lift[r];
        }
    }

    double cost(Int i, Int j) const {
        const double* SILOT_RESTRICT p = x_ + static_cast<std::size_t>(i) * d_;
        const double* SILOT_RESTRICT q = y_ + static_cast<std::size_t>(j) * d_;
        double sum = 0.0;
        for (Int k = 0; k < d_; ++k) {
            const double difference = (p[k] - q[k]) - shift_[k];
            sum += difference * difference;
        }
        return order_ == 2 ? sum : std::sqrt(sum);
    }

  protected:
    Int n_, m_, d_, order_;
    const double *x_, *y_, *shift_;
    std::vector<std::vector<Int>> columns_;
    std::vector<std::vector<double>> costs_;
    std::vector<double> floor_;
    std::vector<Int> size_;

  private:
    template <class T>
    T keep(std::size_t r, T value, Int column, T bar) {
        auto& heap = heaps_[r];
        heap.push_back({static_cast<double>(value), column});
        if (heap.size() < 2 * static_cast<std::size_t>(size_[rows_[r]])) return bar;
        cut(r);
        return static_cast<T>(bars_[r]);
    }

    void cut(std::size_t r) {
        auto& heap = heaps_[r];
        const std::size_t size = size_[rows_[r]];
        if (heap.size() < size) return;
        std::nth_element(heap.begin(), heap.begin() + (size - 1), heap.end(),
                         [](const Candidate& p, const Candidate& q) {
                             return p.value < q.value || (p.value == q.value && p.column < q.column);
                         });
        heap.resize(size);
        bars_[r] = heap.back().value;
    }

    std::vector<Int> rows_;
    std::vector<std::vector<Candidate>> heaps_;
    std::vector<double> bars_;
};

class Bidding final : public Auction, Lists {
  public:
    Bidding(Int n, Int m, Int d, Int k, Int order, const double* x, const double* y,
            const double* shift, const Mass* a, const Mass* b, const double* price)
        : Lists(n, m, d, k, order, x, y, shift), price_(price, price + m), left_(a, a + n),
          scans_(n, 0), parts_(m),
          room_for_more_(most_growth * n * static_cast<std::int64_t>(std::min(k, m))) {
        for (Int j = 0; j < m; ++j) parts_[j].push_back({nobody, b[j], price[j], 0.0});
    }

    void scan_begin(const Int* rows, Int count) override {
        for (Int r = 0; r < count; ++r) {
            // A row that is scanned again and again has too short a list.
            const Int i = rows[r];
            if (++scans_[i] % scans_a_length == 0 && room_for_more_ > 0) {
                const Int longer = size_[i] < m_ / 2 ? 2 * size_[i] : m_;
                room_for_more_ -= longer - size_[i];
                size_[i] = longer;
            }
        }
        begin(rows, count);
    }
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

    void prices(double* out) const override { std::copy(price_.begin(), price_.end(), out); }

    double least(Int i) const override {
        double low = floor_[i];
        for (std::size_t u = 0; u < columns_[i].size(); ++u)
            low = std::min(low, costs_[i][u] + price_[columns_[i][u]]);
        return low;
    }

    Int cells(Cell* out) const override {
        Int count = 0;
        for (Int j = 0; j < m_; ++j)
            for (const Part& part : parts_[j]) {
                if (part.row == nobody) continue;
                if (out) out[count] = {part.row, j, part.mass};
                ++count;
            }
        return count;
    }

    Mass left() const override { return std::accumulate(left_.begin(), left_.end(), Mass{0}); }

    // What is within eps of its row's least stays; the rest bids again.
    void step(double eps) override {
        eps_ = eps;
        release(eps);
        queue_.clear();
        bids_ = most_bids * n_;
        // Neighbours in the order of the data would outbid one another first.
        Int stride = std::max(1, static_cast<Int>(0.618 * n_));
        while (std::gcd(stride, n_) > 1) ++stride;
        for (Int k = 0; k < n_; ++k) {
            const Int i = static_cast<Int>(std::int64_t{k} * stride % n_);
            if (left_[i] > 0) queue_.push_back(i);
        }
    }

    // Bid until no more than `enough` is left, or many more bids than rows were made: the number of rows in `out` that need a scan first.
    Int bid(Mass enough, Int* out) override {
        wanted_.clear();
        Mass remaining = left();
        while (!queue_.empty() && remaining > enough && wanted_.size() < 2 * most_scans) {
            if (--bids_ < 0) break;
            const Int i = queue_.front();
            queue_.pop_front();
            if (left_[i] == 0) continue;
            remaining += place(i);
            if (left_[i] > 0) wanted_.push_back(i);
        }
        for (const Int i : wanted_) queue_.push_back(i);
        if (remaining <= enough || bids_ < 0) wanted_.clear();
        std::copy(wanted_.begin(), wanted_.end(), out);
        return static_cast<Int>(wanted_.size());
    }

    // From here on mass only moves at the least cost plus price, up to `slack`.
    void settle(double slack) override {
        release(slack);
        room_.resize(m_, 0);
        for (Int j = 0; j < m_; ++j) {
            auto& parts = parts_[j];
            std::size_t kept = 0;
            for (const Part& part : parts) {
                if (part.row == nobody)
                    room_[j] += part.mass;
                else
                    parts[kept++] = part;
            }
            parts.resize(kept);
        }
        distance_.resize(m_);
        reached_.resize(m_);
        before_.resize(m_);
        done_.assign(m_, 0);
        via_.resize(n_);
        seen_.assign(n_, 0);
    }

    // Augment until no more than `enough` is left: the number of rows in `out` that need a scan.
    Int augment(Mass enough, Int* out) override {
        wanted_.clear();
        while (wanted_.empty() && left() > enough) search();
        std::copy(wanted_.begin(), wanted_.end(), out);
        return static_cast<Int>(wanted_.size());
    }

  private:
    struct Touched {
        std::size_t candidate, next;  // parts before `next` are taken, or the row's own
        Mass of_next;                 // and so much of the next one
    };

    void release(double slack) {
        std::vector<double> low(n_);
        for (Int i = 0; i < n_; ++i) low[i] = least(i);
        for (Int j = 0; j < m_; ++j) {
            auto& parts = parts_[j];
            for (Part& part : parts) {
                if (part.row == nobody) continue;
                const double most = low[part.row] + slack - part.cost;
                if (price_[j] <= most) {
                    part.price = std::max(price_[j], std::min(part.price, most));
                } else {
                    left_[part.row] += part.mass;
                    part.row = nobody;
                }
            }
            std::sort(parts.begin(), parts.end(), cheaper);
        }
    }

    static bool cheaper(const Part& p, const Part& q) {
        return p.price < q.price || (p.price == q.price && p.row < q.row);
    }

    // The row takes the cheapest parts until its mass is placed, and then pays for them and for
    // what it had what the next one would cost. Returns what is left over more than before.
    Mass place(Int i) {
        const auto& columns = columns_[i];
        const auto& costs = costs_[i];
        values_.resize(columns.size());
        for (std::size_t u = 0; u < columns.size(); ++u) values_[u] = costs[u] + price_[columns[u]];
        touched_.clear();
        Mass need = left_[i];
        const Mass before = need;
        const double most = floor_[i] + (1.0 - least_raise) * eps_;
        double level = floor_[i];
        while (true) {
            double first = far, second = far;
            std::size_t best = 0;
            for (std::size_t u = 0; u < values_.size(); ++u) {
                const double value = values_[u];
                second = std::min(second, std::max(first, value));
                best = value < first ? u : best;
                first = std::min(first, value);
            }
            if (need == 0 || first > most) {
                level = std::min(level, first);
                break;
            }
            Touched& column = touch(best);
            const auto& parts = parts_[columns[best]];
            for (; column.next < parts.size(); ++column.next) {
                const Part& part = parts[column.next];
                if (costs[best] + part.price > second) break;
                if (part.row == i) continue;
                const Mass taken = std::min(need, part.mass);
                need -= taken;
                if (taken < part.mass) {
                    column.of_next = taken;
                    break;
                }
                if (need == 0) {
                    ++column.next;
                    break;
                }
            }
            values_[best] = column.next < parts.size() ? costs[best] + parts[column.next].price : far;
        }
        left_[i] = need;
        Mass more = need - before;
        for (const Touched& column : touched_) more += pay(i, column, level + eps_);
        return more;
    }

    Touched& touch(std::size_t candidate) {
        for (Touched& column : touched_)
            if (column.candidate == candidate) return column;
        touched_.push_back({candidate, 0, 0});
        return touched_.back();
    }

    Mass pay(Int i, const Touched& column, double level) {
        const Int j = columns_[i][column.candidate];
        const double cost = costs_[i][column.candidate];
        auto& parts = parts_[j];
        Mass mass = column.of_next, lost = 0;
        double price = level - cost;
        const auto take = [&](const Part& part, Mass amount) {
            if (part.row == nobody) return;
            if (left_[part.row] == 0) queue_.push_back(part.row);
            left_[part.row] += amount;
            lost += amount;
        };
        for (std::size_t k = 0; k < column.next; ++k) {
            mass += parts[k].mass;
            price = std::max(price, parts[k].price);
            if (parts[k].row != i) take(parts[k], parts[k].mass);
        }
        if (mass == 0) return 0;
        if (column.of_next > 0) {
            take(parts[column.next], column.of_next);
            parts[column.next].mass -= column.of_next;
            price = std::max(price, parts[column.next].price);
        }
        parts.erase(parts.begin(), parts.begin() + column.next);
        const auto own = std::find_if(parts.begin(), parts.end(), [i](const Part& part) { return part.row == i; });
        if (own != parts.end()) {
            mass += own->mass;
            price = std::max(price, own->price);
            parts.erase(own);
        }
        const Part bought{i, mass, price, cost};
        parts.insert(std::upper_bound(parts.begin(), parts.end(), bought, cheaper), bought);
        price_[j] = parts.front().price;
        return lost;
    }

    // Shortest paths from all rows that have mass left, until columns with room could take half
    // of it, or some row's list ends; then as much along each path as it bears.
    void search() {
        std::fill(distance_.begin(), distance_.end(), far);
        std::fill(seen_.begin(), seen_.end(), 0);
        events_.clear();
        std::vector<Int> reached, sinks;
        Mass wanted = 0;
        for (Int i = 0; i < n_; ++i) {
            if (left_[i] == 0) continue;
            wanted += left_[i];
            via_[i] = nobody;
            look(i, -least(i));
        }
        wanted -= wanted / 2;
        double length = 0.0;
        while (wanted > 0) {
            const Event event = events_.front();
            pop();
            if (event.place >= m_) {
                length = std::max(length, event.length);
                want(event.place - m_);
                break;
            }
            const Int j = event.place;
            if (done_[j] || event.length > distance_[j]) continue;
            length = std::max(length, event.length);
            done_[j] = 1;
            reached_[j] = length;
            reached.push_back(j);
            if (room_[j] > 0) {
                sinks.push_back(j);
                wanted -= room_[j];
            }
            for (const Part& part : parts_[j]) {
                if (seen_[part.row]) continue;
                via_[part.row] = j;
                look(part.row, length - (part.cost + price_[j]));
            }
        }
        for (const Int j : reached) {
            price_[j] += length - reached_[j];
            done_[j] = 0;
        }
        for (const Int sink : sinks) push(sink);
    }

    void look(Int i, double shift) {
        seen_[i] = 1;
        for (std::size_t u = 0; u < columns_[i].size(); ++u) {
            const Int j = columns_[i][u];
            const double length = costs_[i][u] + price_[j] + shift;
            if (length >= distance_[j] || done_[j]) continue;
            distance_[j] = length;
            before_[j] = i;
            events_.push_back({length, j});
            std::push_heap(events_.begin(), events_.end());
        }
        if (floor_[i] < far) {
            events_.push_back({floor_[i] + shift, m_ + i});
            std::push_heap(events_.begin(), events_.end());
        }
    }

    void pop() {
        std::pop_heap(events_.begin(), events_.end());
        events_.pop_back();
    }

    // This row's list ends here; those that end next are scanned with it, which costs no more.
    void want(Int i) {
        wanted_.push_back(i);
        std::vector<Event> next;
        for (const Event& event : events_)
            if (event.place >= m_) next.push_back(event);
        const std::size_t part = static_cast<std::size_t>(n_) / part_scanned;
        const std::size_t most = std::min(std::max(part, fewest_scanned), most_scans) - 1;
        const std::size_t count = std::min(next.size(), most);
        std::partial_sort(next.begin(), next.begin() + count, next.end(),
                          [](const Event& p, const Event& q) { return q < p; });
        for (std::size_t k = 0; k < count; ++k) wanted_.push_back(next[k].place - m_);
    }

    void push(Int sink) {
        Int source = before_[sink];
        Mass mass = room_[sink];
        for (; via_[source] >= 0; source = before_[via_[source]])
            mass = std::min(mass, sent(source, via_[source]));
        mass = std::min(mass, left_[source]);
        if (mass == 0) return;
        left_[source] -= mass;
        room_[sink] -= mass;
        for (Int j = sink;;) {
            const Int i = before_[j];
            add(i, j, mass);
            j = via_[i];
            if (j < 0) return;
            add(i, j, -mass);
        }
    }

    Mass sent(Int i, Int j) const {
        for (const Part& part : parts_[j])
            if (part.row == i) return part.mass;
        return 0;
    }

    void add(Int i, Int j, Mass mass) {
        auto& parts = parts_[j];
        for (std::size_t k = 0; k < parts.size(); ++k) {
            if (parts[k].row != i) continue;
            parts[k].mass += mass;
            if (parts[k].mass == 0) {
                parts[k] = parts.back();
                parts.pop_back();
            }
            return;
        }
        parts.push_back({i, mass, price_[j], cost(i, j)});
    }

    double eps_ = 0.0;
    std::int64_t bids_ = 0;
    std::vector<double> price_;
    std::vector<Mass> left_, room_;
    std::vector<Int> scans_;
    std::vector<std::vector<Part>> parts_;  // of every column, the cheapest first
    std::int64_t room_for_more_;  // columns that lists may still grow by
    std::deque<Int> queue_;
    std::vector<Int> wanted_;
    std::vector<double> values_;
    std::vector<Touched> touched_;
    std::vector<double> distance_, reached_;
    std::vector<Int> before_, via_;
    std::vector<char> done_, seen_;
    std::vector<Event> events_;
};

}  // namespace

Auction* auction(Int n, Int m, Int d, Int k, Int order, const double* x, const double* y,
                 const double* shift, const Mass* a, const Mass* b, const double* price) {
    return new Bidding(n, m, d, k, order, x, y, shift, a, b, price);
}

}  // namespace SILOT_SET
}  // namespace silot
