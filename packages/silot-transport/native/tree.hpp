// A network simplex for transport of whole masses, on lists of cells.
//
// It starts from a greedy plan in the order of reduced costs, so that no artificial arc ever carries
// mass, and of the two parts into which a pivot cuts the tree the smaller one changes its
// potentials.
//
// The tree is strongly feasible (Cunningham, Mathematical Programming 11, 1976): every cell without
// mass points to the root, so that pivots without progress do not cycle. What rounding could undo
// of this, a tolerance ends that grows with the number of pivots.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels.hpp"

namespace silot {
namespace SILOT_SET {

// Relative rounding of a reduced cost, and pivots for each node after which it is doubled.
constexpr double rounding = 2e-15;
constexpr std::int64_t patience = 64;
// Costs that are compared to place what the lists have no room for: where they are more, rows are
// offered some columns near them; and at most.
constexpr std::int64_t few_compared = 200'000'000, most_compared = 2'000'000'000;

// Cost(i, j) is what a unit of mass costs from row i to column j.
template <class Cost>
class Tree {
  public:
    Tree(Int n, Int m, const Cost& cost, const Mass* a, const Mass* b)
        : n_(n), m_(m), root_(n + m), cost_(cost), node_(n + m + 1), next_(n + m + 1),
          prev_(n + m + 1), last_(n + m + 1), potential_(n + m + 1), is_column_(n + m + 1, 0),
          outer_(n + m + 1), inner_(n + m + 1), left_(a, a + n), room_(b, b + m), mass_(a) {
        for (Int x = 0; x <= root_; ++x) outer_[x] = inner_[x] = x;
        std::fill(is_column_.begin() + n, is_column_.begin() + root_, 1);
    }

    // At most n + m - 1.
    Int cells(Cell* out) const {
        Int count = 0;
        for (Int x = 0; x < root_; ++x) {
            const Node& node = node_[x];
            if (node.flow == 0) continue;
            const Int one = outer_[x], other = outer_[node.parent];
            out[count++] = {std::min(one, other), std::max(one, other) - n_, node.flow};
        }
        return count;
    }

  protected:
    // Of the tree: rows are nodes 0 to n - 1, columns n to n + m - 1, before they get new numbers.
    // `next` and `prev` list them in preorder, and `last` is the end of a subtree there; `flow` is
    // on the arc to the parent. What is walked along most is kept apart, so that a cache holds it.
    struct Node {
        Mass flow = 0;
        Int parent = -1, size = 1;
    };
    struct Arc {
        Int row, column;  // nodes
        double cost;
    };
    struct Near {
        Int node;
        Mass mass;
    };
    // Of a forest: what is next to node x is `near` from `begin[x]` to `begin[x + 1]`.
    struct Forest {
        std::vector<Int> begin;
        std::vector<Near> near;
    };

    double cost(Int x, Int y) const {
        const Int one = outer_[x], other = outer_[y];
        return one < other ? cost_(one, other - n_) : cost_(other, one - n_);
    }
    double reduced(const Arc& arc) const {
        return arc.cost - potential_[arc.row] - potential_[arc.column];
    }

    // Rounding is a share of the terms of a reduced cost, never of the largest cost there is.
    bool is_negative(double reduced, const Arc& arc) const {
        return -reduced > tolerance_ * (std::abs(potential_[arc.row]) + std::abs(arc.cost));
    }

    // Masses go where reduced costs are least: a forest, because each cell empties a row or fills
    // a column.
    // Where what the lists leave is much, `offer` gives more cells of these rows and columns.
    template <class Offer>
    Forest plan_greedily(Offer offer) {
        std::vector<Cell> cells;
        cells.reserve(root_);
        const auto send = [&](Int i, Int j) {
            const Mass mass = std::min(left_[i], room_[j]);
            if (mass == 0) return;
            left_[i] -= mass;
            room_[j] -= mass;
            cells.push_back({i, n_ + j, mass});
        };
        const auto send_all = [&](const std::vector<Arc>& arcs) {
            for (const std::uint64_t key : sort_arcs(arcs)) {
                const Arc& arc = arcs[static_cast<std::uint32_t>(key)];
                send(arc.row, arc.column - n_);
            }
        };
        const auto keep = [](std::vector<Int>& places, const std::vector<Mass>& masses) {
            const auto is_done = [&](Int k) { return masses[k] == 0; };
            places.erase(std::remove_if(places.begin(), places.end(), is_done), places.end());
            return static_cast<std::int64_t>(places.size());
        };
        send_all(arcs_);
        std::vector<Int> rows(n_), open(m_);
        std::iota(rows.begin(), rows.end(), 0);
        std::iota(open.begin(), open.end(), 0);
        // Where all rows are offered the same few columns, little goes at a time.
        std::int64_t pairs = keep(rows, left_) * keep(open, room_);
        for (std::int64_t before = 2 * pairs; pairs > few_compared && 2 * pairs <= before;) {
            send_all(offer(rows, open));
            before = std::exchange(pairs, keep(rows, left_) * keep(open, room_));
        }
        if (pairs > most_compared) {
            // Neighbours follow one another: both in order.
            std::size_t at = 0;
            for (const Int i : rows)
                while (left_[i] > 0) {
                    send(i, open[at]);
                    if (room_[open[at]] == 0) ++at;
                }
        }
        for (const Int i : rows)
            while (left_[i] > 0) {
                const auto least = std::min_element(open.begin(), open.end(), [&](Int j, Int k) {
                    return cost_(i, j) - potential_[n_ + j] < cost_(i, k) - potential_[n_ + k];
                });
                send(i, *least);
                if (room_[*least] > 0) continue;
                *least = open.back();
                open.pop_back();
            }
        Forest forest;
        forest.begin.assign(root_ + 1, 0);
        for (const Cell& cell : cells) ++forest.begin[cell.row], ++forest.begin[cell.column];
        for (Int x = 0; x < root_; ++x) forest.begin[x + 1] += forest.begin[x];
        forest.near.resize(2 * cells.size());
        for (const Cell& cell : cells) {
            forest.near[--forest.begin[cell.row]] = {cell.column, cell.mass};
            forest.near[--forest.begin[cell.column]] = {cell.row, cell.mass};
        }
        forest.begin[root_] = static_cast<Int>(forest.near.size());
        return forest;
    }

    // Numbers of the arcs by their reduced costs in float32, which are the upper halves: sorted by
    // three times 11 bits (radix sort), several times as fast as by comparison.
    std::vector<std::uint64_t> sort_arcs(const std::vector<Arc>& arcs) const {
        constexpr std::uint32_t digit = 2047;
        std::vector<std::uint64_t> keys(arcs.size()), sorted(arcs.size());
        std::vector<std::uint32_t> starts(3 * (digit + 1), 0);
        for (std::size_t k = 0; k < arcs.size(); ++k) {
            const float value = static_cast<float>(reduced(arcs[k]));
            std::uint32_t bits;
            std::memcpy(&bits, &value, sizeof bits);
            // In the order of the values, negative ones first.
            bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
            keys[k] = static_cast<std::uint64_t>(bits) << 32 | k;
            for (int pass = 0; pass < 3; ++pass)
                ++starts[pass * (digit + 1) + (bits >> 11 * pass & digit)];
        }
        for (int pass = 0; pass < 3; ++pass) {
            std::uint32_t* const start = &starts[pass * (digit + 1)];
            std::uint32_t before = 0;
            for (std::uint32_t d = 0; d <= digit; ++d) before += std::exchange(start[d], before);
            for (const std::uint64_t key : keys)
                sorted[start[key >> (32 + 11 * pass) & digit]++] = key;
            keys.swap(sorted);
        }
        return keys;
    }

    // The trees of the forest hang from the root by arcs that never carry mass; each keeps the mean
    // of the potentials that it had.
    void build_tree(const Forest& forest) {
        std::vector<Int> order, stack;
        Int end = root_;
        last_[root_] = root_;
        for (Int start = 0; start < root_; ++start) {
            if (node_[start].parent >= 0) continue;
            order.clear();
            stack.assign(1, start);
            node_[start].parent = root_;
            double drift = 0.0;
            while (!stack.empty()) {
                const Int x = stack.back();
                stack.pop_back();
                order.push_back(x);
                join(end, x);
                last_[x] = end = x;
                if (x != start) {
                    const double old = potential_[x], other = potential_[node_[x].parent];
                    potential_[x] = cost(x, node_[x].parent) - other;
                    drift += is_column_[x] ? potential_[x] - old : old - potential_[x];
                }
                for (Int k = forest.begin[x]; k < forest.begin[x + 1]; ++k) {
                    const auto [y, mass] = forest.near[k];
                    if (node_[y].parent >= 0) continue;
                    node_[y].parent = x;
                    node_[y].flow = mass;
                    stack.push_back(y);
                }
            }
            drift /= static_cast<double>(order.size());
            for (const Int x : order) potential_[x] += is_column_[x] ? -drift : drift;
            for (std::size_t k = order.size(); k-- > 1;) {
                const Int x = order[k], parent = node_[x].parent;
                node_[parent].size += node_[x].size;
                // The last child of a node comes first in this order.
                if (last_[parent] == parent) last_[parent] = last_[x];
            }
            node_[root_].size += node_[start].size;
        }
        join(end, root_);
        last_[root_] = end;
    }

    // Potentials anew, from the cells of the tree.
    void refresh() {
        for (Int x = next_[root_]; x != root_; x = next_[x]) {
            const Int parent = node_[x].parent;
            if (parent != root_) potential_[x] = cost(x, parent) - potential_[parent];
        }
    }

    void join(Int x, Int y) {
        next_[x] = y;
        prev_[y] = x;
    }

    // Whether mass on the arc to the parent goes there: from rows, and from all that hang from the
    // root.
    bool points_up(Int x) const { return !is_column_[x] || node_[x].parent == root_; }

    void pivot(const Arc& arc, double reduced) {
        const Int s = arc.row, t = arc.column;
        Int top = s;
        for (Int other = t; top != other;) {
            Int& lower = node_[top].size < node_[other].size ? top : other;
            lower = node_[lower].parent;
        }
        // The cell that leaves is the last one of the circle, from its top on, that loses all its
        // mass: this keeps the tree strongly feasible.
        Mass most = std::numeric_limits<Mass>::max();
        Int out = -1;
        bool is_on_row_side = true;
        for (Int x = s; x != top; x = node_[x].parent)
            if (points_up(x) && node_[x].flow < most) most = node_[x].flow, out = x;
        for (Int x = t; x != top; x = node_[x].parent)
            if (!points_up(x) && node_[x].flow <= most)
                most = node_[x].flow, out = x, is_on_row_side = false;
        if (most > 0) {
            for (Int x = s; x != top; x = node_[x].parent)
                node_[x].flow += points_up(x) ? -most : most;
            for (Int x = t; x != top; x = node_[x].parent)
                node_[x].flow += points_up(x) ? most : -most;
        }
        const Int low = is_on_row_side ? s : t, high = is_on_row_side ? t : s;
        const Int size = node_[out].size;
        cut(out, top);
        turn_over(low, out, high, most);
        hang(low, high, top, size);
        // Rows of the part that moved rise by the reduced cost and columns fall, or all others the
        // other way.
        const double by = is_on_row_side ? reduced : -reduced;
        const Int after = next_[last_[low]];
        if (2 * size <= root_) {
            shift(low, after, by);
        } else {
            shift(next_[root_], low, -by);
            shift(after, root_, -by);
        }
        if (++pivots_ % (patience * root_) == 0) {
            tolerance_ *= 2.0;
            refresh();
        }
    }

    // Take a subtree out of the order of nodes, and its size from all above up to the top.
    void cut(Int out, Int top) {
        const Int before = prev_[out], end = last_[out], size = node_[out].size;
        join(before, next_[end]);
        Int x = node_[out].parent;
        for (; x != top; x = node_[x].parent) {
            node_[x].size -= size;
            if (last_[x] == end) last_[x] = before;
        }
        for (; x >= 0 && last_[x] == end; x = node_[x].parent) last_[x] = before;
    }

    // Make `low` the top of the subtree that was cut off at `out`. The subtrees that hang from the
    // path between them follow one another: all of `low`, then the nodes of the next subtree up
    // that are not below the one before, and so on.
    void turn_over(Int low, Int out, Int high, Mass mass) {
        const Int size = node_[out].size;
        Int above = high, end = -1;
        Int below_size = 0, below_last = -1, below_prev = -1, below_next = -1;
        for (Int x = low;;) {
            const Node old = node_[x];
            const Int last = last_[x], prev = prev_[x];
            // What came after this subtree may have been joined elsewhere by now.
            const Int next = last == below_last ? below_next : next_[last];
            if (x == low) {
                end = last;
            } else {
                join(end, x);
                end = below_prev;
                if (below_last != last) {
                    join(end, below_next);
                    end = last;
                }
            }
            node_[x] = {mass, above, size - below_size};
            below_size = old.size, below_last = last, below_prev = prev, below_next = next;
            mass = old.flow;
            above = x;
            if (x == out) break;
            x = old.parent;
        }
        for (Int x = out;; x = node_[x].parent) {
            last_[x] = end;
            if (x == low) break;
        }
    }

    // Put a subtree in right behind its new parent.
    void hang(Int low, Int high, Int top, Int size) {
        const Int end = last_[low], next = next_[high];
        join(high, low);
        join(end, next);
        Int x = high;
        for (bool is_last = true; x != top; x = node_[x].parent) {
            node_[x].size += size;
            is_last = is_last && last_[x] == high;
            if (is_last) last_[x] = end;
        }
        for (; x >= 0 && last_[x] == high; x = node_[x].parent) last_[x] = end;
    }

    void shift(Int from, Int to, double by) {
        const double change[] = {by, -by};
        for (Int x = from; x != to; x = next_[x]) potential_[x] += change[int(is_column_[x])];
    }

    // Pivots on the lists, the best of some rows at a time, until none has a negative cell, until all
    // that they could still gain is such a part of the cost, or until so many seconds have passed.
    // Nodes are numbered anew now and then where that `is_free`.
    void pivot_on_lists(Int block, bool is_free, double enough = 0.0, double seconds = 0.0) {
        using Clock = std::chrono::steady_clock;
        const Clock::time_point start = Clock::now();
        Int i = 0;
        std::int64_t due = pivots_ + root_, renumbered = pivots_ - root_;
        for (Int idle = 0; idle < n_;) {
            double best = 0.0;
            const Arc* arc = nullptr;
            for (Int k = 0; k < block; ++k) {
                for (std::size_t e = begin_[i]; e < begin_[i + 1]; ++e) {
                    const double value = reduced(arcs_[e]);
                    if (value < best && is_negative(value, arcs_[e]))
                        best = value, arc = &arcs_[e];
                }
                i = i + 1 == n_ ? 0 : i + 1;
                ++idle;
            }
            if (arc == nullptr) continue;
            idle = 0;
            pivot(*arc, best);
            if (is_free && pivots_ - renumbered > root_ / 8) {
                renumber();
                renumbered = pivots_;
            }
            if (seconds > 0.0 && pivots_ % 1024 == 0 &&
                std::chrono::duration<double>(Clock::now() - start).count() > seconds)
                return;
            if (enough > 0.0 && pivots_ > due) {
                if (most_gain() <= enough * spent()) return;
                due = pivots_ + root_ / 4;
            }
        }
    }

    // What the lists could still gain: each row by its least reduced cost, with all its mass.
    double most_gain() const {
        double gain = 0.0;
        for (Int i = 0; i < n_; ++i) {
            double least = 0.0;
            for (std::size_t e = begin_[i]; e < begin_[i + 1]; ++e)
                least = std::min(least, reduced(arcs_[e]));
            gain -= static_cast<double>(mass_[i]) * least;
        }
        return gain;
    }

    double spent() const {
        double sum = 0.0;
        for (Int x = 0; x < root_; ++x)
            if (node_[x].flow > 0) sum += static_cast<double>(node_[x].flow) * cost(x, node_[x].parent);
        return sum;
    }

    // Number nodes in preorder, so that walks along the tree go through memory in turn.
    void renumber() {
        std::vector<Int> number(root_ + 1);
        Int count = 0;
        for (Int x = next_[root_]; x != root_; x = next_[x]) number[x] = count++;
        number[root_] = root_;
        std::vector<Node> node(root_ + 1);
        std::vector<Int> last(root_ + 1), outer(root_ + 1);
        std::vector<double> potential(root_ + 1);
        for (Int x = 0; x <= root_; ++x) {
            const Int k = number[x];
            node[k] = node_[x];
            if (x != root_) node[k].parent = number[node_[x].parent];
            last[k] = number[last_[x]];
            outer[k] = outer_[x];
            potential[k] = potential_[x];
        }
        node_.swap(node);
        last_.swap(last);
        outer_.swap(outer);
        potential_.swap(potential);
        for (Int k = 0; k <= root_; ++k) {
            inner_[outer_[k]] = k;
            is_column_[k] = k != root_ && outer_[k] >= n_;
            join(k == 0 ? root_ : k - 1, k);
        }
        join(root_, 0);
        for (Arc& arc : arcs_) {
            arc.row = number[arc.row];
            arc.column = number[arc.column];
        }
    }

    // Pivots on these arcs, the best first, until none is negative, and uses them up; whether there
    // was any.
    bool pivot_on(std::vector<Arc>& arcs) {
        const std::int64_t before = pivots_;
        while (!arcs.empty()) {
            double best = 0.0;
            std::size_t at = 0, kept = 0;
            for (const Arc& arc : arcs) {
                const double value = reduced(arc);
                if (!(value < 0.0) || !is_negative(value, arc)) continue;
                if (value < best) best = value, at = kept;
                arcs[kept++] = arc;
            }
            arcs.resize(kept);
            if (kept > 0) pivot(arcs[at], best);
        }
        return pivots_ > before;
    }

    Int n_, m_, root_;
    Cost cost_;
    double tolerance_ = rounding;
    std::int64_t pivots_ = 0;
    std::vector<Node> node_;
    std::vector<Int> next_, prev_, last_;
    std::vector<double> potential_;
    std::vector<char> is_column_;
    std::vector<Int> outer_, inner_;  // the first number of a node, and the node of it
    std::vector<Mass> left_, room_;
    const Mass* mass_;  // of the rows
    std::vector<Arc> arcs_;
    std::vector<std::size_t> begin_;  // of each row's arcs, and their end
};

}  // namespace SILOT_SET
}  // namespace silot
