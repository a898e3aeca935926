// Transport of any whole masses: a primal network simplex on all n x m cells.
//
// Three things make it fast. It starts at potentials near the optimal ones, from a greedy plan in
// the order of their reduced costs, so that no artificial arc ever carries mass. Pivots look at
// short lists of the least reduced costs, and whole rows are read only to prove the end. And of the
// two parts into which a pivot cuts the tree, the smaller one changes its potentials.
//
// The tree is strongly feasible (Cunningham, Mathematical Programming 11, 1976): every cell without
// mass points to the root, so that pivots without progress do not cycle. What rounding could undo
// of this, a tolerance ends that grows with the number of pivots.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Cells of a row that one look at it returns: the least of each residue of this number.
constexpr Int residues = 16;
// Relative rounding of a reduced cost, and pivots for each node after which it is doubled.
constexpr double rounding = 2e-15;
constexpr std::int64_t patience = 64;

class Simplex {
  public:
    // In: potentials u, v near the optimal ones. Out: the optimal ones.
    Simplex(Int n, Int m, const double* cost, const Mass* a, const Mass* b, double* u, double* v)
        : n_(n), m_(m), root_(n + m), cost_(cost), a_(a), b_(b), out_u_(u), out_v_(v), node_(n + m + 1),
          next_(n + m + 1), prev_(n + m + 1), last_(n + m + 1), potential_(n + m + 1),
          left_(a, a + n), room_(b, b + m) {
        std::copy(u, u + n, potential_.begin());
        std::copy(v, v + m, potential_.begin() + n);
        v_ = potential_.data() + n;
    }

    void solve() {
        list_cells();
        build_tree(plan_greedily());
        refresh();
        pivot_on_lists();
        do {
            refresh();  // sums of many steps drift
        } while (pivot_on_rows());
        // Both sides weigh the same: bounds allow for the rounding of large potentials.
        double apart = 0.0, total = 0.0;
        for (Int i = 0; i < n_; ++i) apart -= static_cast<double>(a_[i]) * potential_[i];
        for (Int j = 0; j < m_; ++j) {
            apart += static_cast<double>(b_[j]) * v_[j];
            total += static_cast<double>(b_[j]);
        }
        for (Int j = 0; j < m_; ++j) out_v_[j] = v_[j] - 0.5 * apart / total;
        for (Int i = 0; i < n_; ++i) out_u_[i] = two_least(row(i), out_v_, m_).first;
    }

    // At most n + m - 1.
    Int cells(Cell* out) const {
        Int count = 0;
        for (Int x = 0; x < root_; ++x) {
            const Node& node = node_[x];
            if (node.flow > 0)
                out[count++] = {std::min(x, node.parent), std::max(x, node.parent) - n_, node.flow};
        }
        return count;
    }

  private:
    // Of the tree: rows are nodes 0 to n - 1, columns n to n + m - 1. `next` and `prev` list them in
    // preorder, and `last` is the end of a subtree there; `flow` is on the arc to the parent. What
    // is walked along most is kept apart, so that a cache holds it.
    struct Node {
        Mass flow = 0;
        Int parent = -1, size = 1;
    };
    struct Arc {
        Int row, column;
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

    const double* row(Int i) const { return cost_ + static_cast<std::size_t>(i) * m_; }
    double cost(Int x, Int y) const { return x < y ? row(x)[y - n_] : row(y)[x - n_]; }
    double reduced(const Arc& arc) const { return arc.cost - potential_[arc.row] - v_[arc.column]; }

    // Rounding is a share of the terms of a reduced cost, never of the largest cost there is.
    bool is_negative(double reduced, const Arc& arc) const {
        return -reduced > tolerance_ * (std::abs(potential_[arc.row]) + std::abs(arc.cost));
    }

    // The least cell of each residue in a row, as far as there are any.
    Int look(Int i, Arc* out) const {
        const double* SILOT_RESTRICT c = row(i);
        const double* SILOT_RESTRICT v = v_;
        double least[residues];
        std::int64_t at[residues];
        std::fill(least, least + residues, far_away<double>());
        std::fill(at, at + residues, -1);
        Int j = 0;
        for (; j + residues <= m_; j += residues)
            for (Int k = 0; k < residues; ++k) {
                const double x = c[j + k] - v[j + k];
                at[k] = x < least[k] ? j : at[k];
                least[k] = x < least[k] ? x : least[k];
            }
        for (Int k = 0; j + k < m_; ++k)
            if (c[j + k] - v[j + k] < least[k]) at[k] = j;
        Int count = 0;
        for (Int k = 0; k < residues; ++k)
            if (at[k] >= 0) {
                const Int column = static_cast<Int>(at[k]) + k;
                out[count++] = {i, column, c[column]};
            }
        return count;
    }

    // The least cells of each row, and two of each column.
    void list_cells() {
        std::vector<double> one(m_, far_away<double>()), two(m_, far_away<double>());
        std::vector<Int> first(m_, 0), second(m_, 0);
        for (Int i = 0; i < n_; ++i) {
            const double* SILOT_RESTRICT c = row(i);
            const double u = potential_[i];
            for (Int j = 0; j < m_; ++j) {
                const double x = c[j] - u;
                const bool is_least = x < one[j], is_less = x < two[j];
                two[j] = is_least ? one[j] : (is_less ? x : two[j]);
                second[j] = is_least ? first[j] : (is_less ? i : second[j]);
                first[j] = is_least ? i : first[j];
                one[j] = is_least ? x : one[j];
            }
        }
        for (Int j = 0; j < m_; ++j) potential_[n_ + j] = one[j];  // as high as rows allow
        begin_.assign(n_ + 1, 0);
        for (Int j = 0; j < m_; ++j) {
            ++begin_[first[j] + 1];
            ++begin_[second[j] + 1];
        }
        const Int each = std::min(m_, residues);
        for (Int i = 0; i < n_; ++i) begin_[i + 1] += begin_[i] + each;
        arcs_.resize(begin_[n_]);
        std::vector<std::size_t> end(begin_.begin(), begin_.end() - 1);
        for (Int i = 0; i < n_; ++i) end[i] += look(i, arcs_.data() + end[i]);
        for (Int j = 0; j < m_; ++j)
            for (const Int i : {first[j], second[j]}) arcs_[end[i]++] = {i, j, row(i)[j]};
    }

    // Masses go where reduced costs are least: a forest, because each cell empties a row or fills
    // a column.
    Forest plan_greedily() {
        std::vector<Cell> cells;
        cells.reserve(root_);
        const auto send = [&](Int i, Int j) {
            const Mass mass = std::min(left_[i], room_[j]);
            if (mass == 0) return;
            left_[i] -= mass;
            room_[j] -= mass;
            cells.push_back({i, n_ + j, mass});
        };
        std::vector<std::pair<float, Int>> order(arcs_.size());
        for (std::size_t k = 0; k < arcs_.size(); ++k)
            order[k] = {static_cast<float>(reduced(arcs_[k])), static_cast<Int>(k)};
        std::sort(order.begin(), order.end());
        for (const auto& [value, k] : order) send(arcs_[k].row, arcs_[k].column);
        std::vector<Int> open;
        for (Int j = 0; j < m_; ++j)
            if (room_[j] > 0) open.push_back(j);
        for (Int i = 0; i < n_; ++i)
            while (left_[i] > 0) {
                const auto least = std::min_element(open.begin(), open.end(), [&](Int j, Int k) {
                    return row(i)[j] - v_[j] < row(i)[k] - v_[k];
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
                    drift += x < n_ ? old - potential_[x] : potential_[x] - old;
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
            for (const Int x : order) potential_[x] += x < n_ ? drift : -drift;
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
    bool points_up(Int x) const { return x < n_ || node_[x].parent == root_; }

    void pivot(const Arc& arc, double reduced) {
        const Int s = arc.row, t = n_ + arc.column;
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
        for (Int x = from; x != to; x = next_[x]) potential_[x] += change[x >= n_];
    }

    // Pivots on the lists, the best of some rows at a time, until none has a negative cell.
    void pivot_on_lists() {
        const Int block = std::max<Int>(4, static_cast<Int>(std::sqrt(double(n_)) / 2));
        Int i = 0;
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
        }
    }

    // Pivots on whole rows, some at a time, until all of them in turn have no negative cell; whether
    // there was any.
    bool pivot_on_rows() {
        const std::int64_t before = pivots_;
        const Int rows_at_once = std::max<Int>(4, static_cast<Int>(std::sqrt(double(n_)) / 2));
        std::vector<Arc> arcs(static_cast<std::size_t>(rows_at_once) * residues);
        Int i = 0;
        for (Int idle = 0; idle < n_;) {
            Int count = 0;
            for (Int k = 0; k < rows_at_once && k < n_; ++k) {
                const Int end = count + look(i, arcs.data() + count);
                for (Int e = count; e < end; ++e)
                    if (is_negative(reduced(arcs[e]), arcs[e])) arcs[count++] = arcs[e];
                i = i + 1 == n_ ? 0 : i + 1;
                ++idle;
            }
            while (count > 0) {
                idle = 0;
                double best = 0.0;
                Int at = -1, kept = 0;
                for (Int e = 0; e < count; ++e) {
                    const double value = reduced(arcs[e]);
                    if (!(value < 0.0) || !is_negative(value, arcs[e])) continue;
                    arcs[kept] = arcs[e];
                    if (value < best) best = value, at = kept;
                    ++kept;
                }
                count = kept;
                if (at >= 0) pivot(arcs[at], best);
            }
        }
        return pivots_ > before;
    }

    Int n_, m_, root_;
    const double* cost_;
    const Mass *a_, *b_;
    double *out_u_, *out_v_;
    const double* v_;  // potentials of the columns
    double tolerance_ = rounding;
    std::int64_t pivots_ = 0;
    std::vector<Node> node_;
    std::vector<Int> next_, prev_, last_;
    std::vector<double> potential_;
    std::vector<Mass> left_, room_;
    std::vector<Arc> arcs_;
    std::vector<std::size_t> begin_;
};

// Points of the smaller side from which on a problem of a part of the points comes first, and one of
// how many is in that part.
constexpr Int coarsest = 160, part = 4;
// Part of the mass that is nearly all.
constexpr double nearly_all = 0.9;
// Costs to so many points say which others a point is like.
constexpr Int landmarks = 8;
// Sweeps of a softmax over the rows, and the temperatures of the first and the last, in gaps of a row.
constexpr int sweeps = 5;
constexpr float hottest = 1.0f, coldest = 0.2f;
// Gaps beyond which nothing is told apart.
constexpr float farthest = 1e30f;

// 2^x for x <= 0, to about 2e-4.
inline float power_of_two(float x) {
    x = x < -120.0f ? -120.0f : x;
    const std::int32_t whole = static_cast<std::int32_t>(x);
    const float r = x - static_cast<float>(whole);
    const float f = 1.0f + r * (0.6931472f + r * (0.2402265f + r * (0.0555041f + r * 0.0096181f)));
    std::int32_t bits;
    std::memcpy(&bits, &f, sizeof bits);
    bits += whole * (1 << 23);
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
}

// Potentials near the optimal ones of a problem.
class Start {
  public:
    Start(Int n, Int m, const double* cost, const Mass* a, const Mass* b, double* u, double* v)
        : n_(n), m_(m), cost_(cost), a_(a), b_(b), u_(u), v_(v) {}

    void find() {
        find_least();
        if (std::min(n_, m_) < coarsest || fits_least_cells()) return;
        solve_part();
        make_feasible();
        const std::vector<double> u(u_, u_ + n_), v(v_, v_ + m_);
        const double before = dual();
        sweep_softly();
        make_feasible();
        if (dual() > before) return;
        std::copy(u.begin(), u.end(), u_);
        std::copy(v.begin(), v.end(), v_);
    }

    // The highest u below the costs less v.
    void make_feasible() {
        for (Int i = 0; i < n_; ++i) {
            const double* SILOT_RESTRICT c = row(i);
            double least = far_away<double>();
            for (Int j = 0; j < m_; ++j) {
                const double x = c[j] - v_[j];
                least = x < least ? x : least;
            }
            u_[i] = least;
        }
    }

  private:
    const double* row(Int i) const { return cost_ + static_cast<std::size_t>(i) * m_; }

    void lower_columns(const double* SILOT_RESTRICT c, double shift) {
        double* SILOT_RESTRICT v = v_;
        for (Int j = 0; j < m_; ++j) {
            const double x = c[j] - shift;
            v[j] = x < v[j] ? x : v[j];
        }
    }

    // The least costs of the columns, and of the rows what is above them.
    void find_least() {
        std::fill(v_, v_ + m_, far_away<double>());
        for (Int i = 0; i < n_; ++i) lower_columns(row(i), 0.0);
        least_.resize(n_);
        for (Int i = 0; i < n_; ++i) {
            const Least<double> two = two_least(row(i), v_, m_);
            u_[i] = two.first;
            least_[i] = two.at;
        }
    }

    // Whether the least cells take nearly all: the sides are near one another, point by point.
    bool fits_least_cells() const {
        std::vector<Mass> room(b_, b_ + m_);
        double sent = 0.0, total = 0.0;
        for (Int i = 0; i < n_; ++i) {
            const Mass mass = std::min(a_[i], room[least_[i]]);
            room[least_[i]] -= mass;
            sent += static_cast<double>(mass);
            total += static_cast<double>(a_[i]);
        }
        return sent >= nearly_all * total;
    }

    double dual() const {
        double sum = 0.0;
        for (Int i = 0; i < n_; ++i) sum += static_cast<double>(a_[i]) * u_[i];
        for (Int j = 0; j < m_; ++j) sum += static_cast<double>(b_[j]) * v_[j];
        return sum;
    }

    // The potentials of a problem of some rows and columns, which carry also the masses of those
    // that are like them.
    void solve_part() {
        const std::vector<Int> rows = draw(n_, n_ / part), columns = draw(m_, m_ / part);
        const Int n = static_cast<Int>(rows.size()), m = static_cast<Int>(columns.size());
        std::vector<double> cost(static_cast<std::size_t>(n) * m), u(n), v(m);
        for (Int k = 0; k < n; ++k)
            for (Int l = 0; l < m; ++l)
                cost[static_cast<std::size_t>(k) * m + l] = row(rows[k])[columns[l]];
        std::vector<Mass> a(n), b(m);
        const auto row_of = most_alike(
            n_, rows, [&](Int i, Int l) { return row(i)[columns[l]]; });
        for (Int i = 0; i < n_; ++i) a[row_of[i]] += a_[i];
        const auto column_of = most_alike(
            m_, columns, [&](Int j, Int l) { return row(rows[l])[j]; });
        for (Int j = 0; j < m_; ++j) b[column_of[j]] += b_[j];
        Start(n, m, cost.data(), a.data(), b.data(), u.data(), v.data()).find();
        Simplex simplex(n, m, cost.data(), a.data(), b.data(), u.data(), v.data());
        simplex.solve();
        std::fill(v_, v_ + m_, far_away<double>());
        for (Int k = 0; k < n; ++k) lower_columns(row(rows[k]), u[k]);
    }

    // Some of n, in an order that has nothing to do with theirs.
    static std::vector<Int> draw(Int n, Int count) {
        std::vector<Int> all(n);
        for (Int i = 0; i < n; ++i) all[i] = i;
        std::uint64_t state = 88172645463325252ull;
        for (Int i = 0; i < count; ++i) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            std::swap(all[i], all[i + static_cast<Int>((state >> 33) % std::uint64_t(n - i))]);
        }
        all.resize(count);
        return all;
    }

    // The place in `chosen` of whom each is most like, by roots of its costs to a few landmarks.
    template <class Cost>
    static std::vector<Int> most_alike(Int n, const std::vector<Int>& chosen, Cost cost) {
        const Int count = static_cast<Int>(chosen.size());
        const auto root = [&](Int i, Int l) {
            return static_cast<float>(std::sqrt(std::abs(cost(i, l))));
        };
        std::vector<float> marks(static_cast<std::size_t>(landmarks) * count), far(count);
        for (Int l = 0; l < landmarks; ++l)
            for (Int k = 0; k < count; ++k)
                marks[static_cast<std::size_t>(l) * count + k] = root(chosen[k], l);
        std::vector<Int> alike(n);
        for (Int i = 0; i < n; ++i) {
            std::fill(far.begin(), far.end(), 0.0f);
            for (Int l = 0; l < landmarks; ++l) {
                const float here = root(i, l);
                const float* SILOT_RESTRICT there = &marks[static_cast<std::size_t>(l) * count];
                for (Int k = 0; k < count; ++k) far[k] += (here - there[k]) * (here - there[k]);
            }
            alike[i] =
                static_cast<Int>(std::min_element(far.begin(), far.end()) - far.begin());
        }
        return alike;
    }

    // Sweeps over the rows: each spreads its mass over the columns by a softmax of a temperature of
    // its own, and columns that get too little rise. One exponential a cell and sweep. All in units
    // of the usual gap, in which float32 has digits enough.
    void sweep_softly() {
        std::vector<double> scale = gaps(), sorted(scale);
        std::nth_element(sorted.begin(), sorted.begin() + n_ / 2, sorted.end());
        const double usual = sorted[n_ / 2], unit = 1.0 / usual;
        if (!(usual > 0.0)) return;
        double total = 0.0;
        for (Int i = 0; i < n_; ++i) total += static_cast<double>(a_[i]);
        std::vector<float> near(m_), sum(m_), heat(m_), gap(m_);
        for (int sweep = 0; sweep < sweeps; ++sweep) {
            const float share = hottest * std::pow(coldest / hottest, float(sweep) / (sweeps - 1));
            std::fill(sum.begin(), sum.end(), 0.0f);
            std::fill(heat.begin(), heat.end(), 0.0f);
            std::fill(gap.begin(), gap.end(), farthest);
            for (Int i = 0; i < n_; ++i) {
                if (a_[i] == 0) continue;
                const float own = std::min(static_cast<float>(scale[i] * unit), farthest);
                const float warmth = share * std::max(own, 0.05f);
                const float most = subtract(row(i), u_[i], unit, near.data());
                u_[i] -= most * usual;
                const float mass = static_cast<float>(static_cast<double>(a_[i]) / total) /
                                   weigh(most, warmth, near.data(), gap.data());
                add(mass, mass / warmth, near.data(), sum.data(), heat.data());
            }
            for (Int j = 0; j < m_; ++j) {
                if (b_[j] == 0) continue;
                const float wanted = static_cast<float>(static_cast<double>(b_[j]) / total);
                const float sent = std::max(sum[j], 1e-30f);
                // The harmonic mean of the temperatures of the rows that send here.
                const float here = sum[j] > 1e-30f && heat[j] > 0.0f ? sum[j] / heat[j] : share;
                v_[j] += usual * std::min(here * std::log(wanted / sent), gap[j]);
            }
        }
    }

    // About the ninth least reduced cost of each row.
    std::vector<double> gaps() const {
        std::vector<double> out(n_);
        for (Int i = 0; i < n_; ++i) {
            double least[residues];
            std::fill(least, least + residues, far_away<double>());
            const double* SILOT_RESTRICT c = row(i);
            for (Int j = 0; j + residues <= m_; j += residues)
                for (Int k = 0; k < residues; ++k) {
                    const double x = c[j + k] - v_[j + k];
                    least[k] = x < least[k] ? x : least[k];
                }
            std::nth_element(least, least + residues / 2, least + residues);
            out[i] = least[residues / 2] - u_[i];
        }
        return out;
    }

    // Three passes over a row, apart so that each uses wide registers.
    float subtract(const double* SILOT_RESTRICT c, double u, double unit,
                   float* SILOT_RESTRICT near) const {
        const double* SILOT_RESTRICT v = v_;
        float most = -farthest;
        for (Int j = 0; j < m_; ++j) {
            const double x = (v[j] - c[j] + u) * unit;
            near[j] = static_cast<float>(x < -farthest ? -farthest : x);
            most = near[j] > most ? near[j] : most;
        }
        return most;
    }

    // `gap` is how far a column may rise before a row of some temperature goes nowhere else.
    float weigh(float most, float warmth, float* SILOT_RESTRICT near,
                float* SILOT_RESTRICT gap) const {
        const float by = 1.442695f / warmth, more = 2.0f * warmth;
        float total = 0.0f;
        for (Int j = 0; j < m_; ++j) {
            const float r = most - near[j], far = r + more;
            gap[j] = far < gap[j] ? far : gap[j];
            near[j] = power_of_two(-r * by);
            total += near[j];
        }
        return total;
    }

    void add(float mass, float over_warmth, const float* SILOT_RESTRICT near,
             float* SILOT_RESTRICT sum, float* SILOT_RESTRICT heat) const {
        for (Int j = 0; j < m_; ++j) {
            sum[j] += mass * near[j];
            heat[j] += over_warmth * near[j];
        }
    }

    Int n_, m_;
    const double* cost_;
    const Mass *a_, *b_;
    double *u_, *v_;
    std::vector<Int> least_;
};

}  // namespace

void near_potentials(Int n, Int m, const double* cost, const Mass* a, const Mass* b, double* u,
                     double* v) {
    Start(n, m, cost, a, b, u, v).find();
}

Int transport(Int n, Int m, const double* cost, const Mass* a, const Mass* b, bool has_columns,
              double* u, double* v, Cell* cells) {
    Start start(n, m, cost, a, b, u, v);
    if (has_columns)
        start.make_feasible();
    else
        start.find();
    Simplex simplex(n, m, cost, a, b, u, v);
    simplex.solve();
    return simplex.cells(cells);
}

}  // namespace SILOT_SET
}  // namespace silot
