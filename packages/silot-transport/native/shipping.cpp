// Transport of whole masses by shortest augmenting paths with potentials: every path fills a
// column, empties a row, or takes back all that some row sent to some column.
#include <algorithm>
#include <vector>

#include "rows.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

class Shipping {
  public:
    Shipping(Int n, Int m, const double* cost, const Mass* a, const Mass* b, double* v)
        : n_(n), m_(m), cost_(cost), v_(v), left_(a, a + n), room_(b, b + m), sent_(m) {}

    void solve(Effort& effort) {
        take_least(effort);
        d_.resize(m_);
        reached_.resize(m_);
        open_.assign(v_, v_ + m_);
        before_.resize(m_);
        via_.resize(n_);
        seen_.assign(n_, 0);
        for (Int i = 0; i < n_; ++i) effort.left += left_[i] > 0;
        while (std::any_of(left_.begin(), left_.end(), [](Mass mass) { return mass > 0; }))
            phase(effort);
    }

    // The cells of a plan without cycles: n + m - 1 at most.
    Int cells(Cell* out, Int most) {
        break_cycles();
        Int count = 0;
        for (Int j = 0; j < m_; ++j)
            for (const auto& [row, mass] : sent_[j]) {
                if (count == most) return -1;
                out[count++] = {row, j, mass};
            }
        return count;
    }

  private:
    struct Sent {
        Int row;
        Mass mass;
    };

    const double* costs(Int row) const { return cost_ + static_cast<std::size_t>(row) * m_; }

    void take_least(Effort& effort) {
        for (Int i = 0; i < n_; ++i) {
            const Int j = two_least(costs(i), v_, m_).at;
            ++effort.scans;
            const Mass mass = std::min(left_[i], room_[j]);
            if (mass > 0) send(i, j, mass);
        }
    }

    void send(Int i, Int j, Mass mass) {
        left_[i] -= mass;
        room_[j] -= mass;
        sent_[j].push_back({i, mass});
    }

    // Shortest paths from all rows that have mass left to columns with room, until these could
    // take `share` of what is left; then as much along each path as it bears.
    void phase(Effort& effort) {
        const double far = far_away<double>();
        std::fill(d_.begin(), d_.end(), far);
        std::fill(seen_.begin(), seen_.end(), 0);
        done_.clear();
        sinks_.clear();
        Mass wanted = 0;
        double length = 0.0, best = far;
        for (Int i = 0; i < n_; ++i) {
            if (left_[i] == 0) continue;
            wanted += left_[i];
            seen_[i] = 1;
            via_[i] = -1;
            best = look(i, -two_least(costs(i), v_, m_).first, effort);
        }
        wanted -= wanted / 2;  // half of it: more makes paths long, less makes phases many
        while (true) {
            const Int j = place_of(best, d_.data(), m_, [&](Int k) { return room_[k] > 0; });
            length = std::max(length, best);
            reached_[j] = length;
            done_.push_back(j);
            d_[j] = far;
            open_[j] = -far;
            bool looked = false;
            if (room_[j] > 0) {
                sinks_.push_back(j);
                wanted -= room_[j];
                if (wanted <= 0) break;
            }
            for (const Sent& sent : sent_[j]) {
                if (seen_[sent.row]) continue;
                seen_[sent.row] = 1;
                via_[sent.row] = j;
                best = look(sent.row, length - (costs(sent.row)[j] - v_[j]), effort);
                looked = true;
            }
            if (!looked) best = *std::min_element(d_.begin(), d_.end());
        }
        for (const Int j : done_) {
            v_[j] += reached_[j] - length;
            open_[j] = v_[j];
        }
        for (const Int sink : sinks_) push(sink);
    }

    double look(Int i, double shift, Effort& effort) {
        ++effort.scans;
        return relax(costs(i), open_.data(), shift, i, m_, d_.data(), before_.data());
    }

    // As much as the row has, the column takes, and rows on the way can give back.
    void push(Int sink) {
        Int source = before_[sink];
        Mass mass = room_[sink];
        for (; via_[source] >= 0; source = before_[via_[source]])
            mass = std::min(mass, sent_by(source, via_[source]));
        mass = std::min(mass, left_[source]);
        if (mass == 0) return;
        left_[source] -= mass;
        room_[sink] -= mass;
        for (Int j = sink;;) {
            const Int row = before_[j];
            add(row, j, mass);
            j = via_[row];
            if (j < 0) return;
            take_back(row, j, mass);
        }
    }

    Mass sent_by(Int row, Int j) const {
        for (const Sent& sent : sent_[j])
            if (sent.row == row) return sent.mass;
        return 0;
    }

    void add(Int row, Int j, Mass mass) {
        for (Sent& sent : sent_[j])
            if (sent.row == row) {
                sent.mass += mass;
                return;
            }
        sent_[j].push_back({row, mass});
    }

    // Where costs tie, what was sent may run in circles. Each cell is added to a forest of rows
    // (0 to n - 1) and columns (n to n + m - 1); one that would close a circle shifts mass around
    // it, which costs nothing, until a cell of it is empty.
    void break_cycles() {
        std::vector<std::vector<Int>> near(n_ + m_);
        std::vector<Int> from(n_ + m_), tree(n_ + m_);
        for (Int k = 0; k < n_ + m_; ++k) tree[k] = k;
        const auto root = [&](Int k) {
            while (tree[k] != k) k = tree[k] = tree[tree[k]];
            return k;
        };
        for (Int j = 0; j < m_; ++j) {
            const std::vector<Sent> cells = sent_[j];
            for (const Sent& cell : cells) {
                const Int one = root(cell.row), other = root(n_ + j);
                tree[one] = other;
                if (one == other && find_path(near, cell.row, n_ + j, from))
                    shift(near, cell.row, n_ + j, from);
                if (sent_by(cell.row, j) > 0) {
                    near[cell.row].push_back(n_ + j);
                    near[n_ + j].push_back(cell.row);
                }
            }
        }
    }

    // Steps back from `end` to `start` through the forest, or false.
    static bool find_path(const std::vector<std::vector<Int>>& near, Int start, Int end,
                          std::vector<Int>& from) {
        if (near[start].empty() || near[end].empty()) return false;
        std::fill(from.begin(), from.end(), -1);
        std::vector<Int> queue{start};
        from[start] = start;
        for (std::size_t k = 0; k < queue.size(); ++k)
            for (const Int next : near[queue[k]]) {
                if (from[next] >= 0) continue;
                from[next] = queue[k];
                if (next == end) return true;
                queue.push_back(next);
            }
        return false;
    }

    // The cell (row, column) and every second one of the path lose what the others gain.
    void shift(std::vector<std::vector<Int>>& near, Int row, Int column,
               const std::vector<Int>& from) {
        Mass mass = sent_by(row, column - n_);
        const auto each = [&](auto visit) {
            bool gains = true;
            for (Int node = column; node != row; node = from[node], gains = !gains) {
                const Int other = from[node];
                visit(std::min(node, other), std::max(node, other) - n_, gains);
            }
        };
        each([&](Int i, Int j, bool gains) {
            if (!gains) mass = std::min(mass, sent_by(i, j));
        });
        take_back(row, column - n_, mass);
        each([&](Int i, Int j, bool gains) {
            if (gains) {
                add(i, j, mass);
            } else {
                take_back(i, j, mass);
                if (sent_by(i, j) == 0) {
                    forget(near[i], n_ + j);
                    forget(near[n_ + j], i);
                }
            }
        });
    }

    static void forget(std::vector<Int>& all, Int one) {
        all.erase(std::find(all.begin(), all.end(), one));
    }

    void take_back(Int row, Int j, Mass mass) {
        std::vector<Sent>& all = sent_[j];
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (all[k].row != row) continue;
            all[k].mass -= mass;
            if (all[k].mass == 0) {
                all[k] = all.back();
                all.pop_back();
            }
            return;
        }
    }

    Int n_, m_;
    const double* cost_;
    double* v_;
    std::vector<Mass> left_, room_;
    std::vector<std::vector<Sent>> sent_;
    std::vector<double> d_, reached_, open_;
    std::vector<Int> before_, via_, done_, sinks_;
    std::vector<char> seen_;
};

}  // namespace

Int ship(Int n, Int m, const double* cost, const Mass* a, const Mass* b, double* u, double* v,
         Cell* cells, Int most, Effort* effort) {
    Shipping shipping(n, m, cost, a, b, v);
    shipping.solve(*effort);
    for (Int i = 0; i < n; ++i)
        u[i] = two_least(cost + static_cast<std::size_t>(i) * m, v, m).first;
    return shipping.cells(cells, most);
}

}  // namespace SILOT_SET
}  // namespace silot
