// Transport of any whole masses, by a network simplex on all n x m cells.
//
// Two more things make it fast. It starts at potentials near the optimal ones; and pivots look at
// short lists of the least reduced costs, and whole rows are read only to prove the end.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "rows.hpp"
#include "tree.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Cells of a row that one look at it returns: the least of each residue of this number.
constexpr Int residues = 16;
// Cells of a row up to which reading all of it takes no longer than reading its list.
constexpr Int short_row = 240;

struct Matrix {
    const double* cost;
    Int m;
    const double* row(Int i) const { return cost + static_cast<std::size_t>(i) * m; }
    double operator()(Int i, Int j) const { return row(i)[j]; }
};

class Simplex : public Tree<Matrix> {
  public:
    // In: potentials u, v near the optimal ones. Out: the optimal ones.
    Simplex(Int n, Int m, const double* cost, const Mass* a, const Mass* b, double* u, double* v)
        : Tree(n, m, {cost, m}, a, b), b_(b), out_u_(u), out_v_(v) {
        std::copy(u, u + n, potential_.begin());
        std::copy(v, v + m, potential_.begin() + n);
        v_ = potential_.data() + n;
    }

    void solve() {
        list_cells();
        build_tree(plan_greedily([](auto&, auto&) { return std::vector<Arc>(); }));
        refresh();
        if (m_ <= short_row)
            pivot_on_short_rows();
        else
            pivot_on_lists(block_, false);
        do {
            refresh();  // sums of many steps drift
        } while (pivot_on_rows());
        // Both sides weigh the same: bounds allow for the rounding of large potentials.
        double apart = 0.0, total = 0.0;
        for (Int i = 0; i < n_; ++i) apart -= static_cast<double>(mass_[i]) * potential_[i];
        for (Int j = 0; j < m_; ++j) {
            apart += static_cast<double>(b_[j]) * v_[j];
            total += static_cast<double>(b_[j]);
        }
        for (Int j = 0; j < m_; ++j) out_v_[j] = v_[j] - 0.5 * apart / total;
        for (Int i = 0; i < n_; ++i) out_u_[i] = two_least(cost_.row(i), out_v_, m_).first;
    }

  private:
    // The least cell of each residue in a row, as far as there are any.
    Int look(Int i, Arc* out) const {
        const double* SILOT_RESTRICT c = cost_.row(i);
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
                out[count++] = {i, n_ + column, c[column]};
            }
        return count;
    }

    // The least cells of each row, and two of each column.
    void list_cells() {
        std::vector<double> one(m_, far_away<double>()), two(m_, far_away<double>());
        std::vector<Int> first(m_, 0), second(m_, 0);
        for (Int i = 0; i < n_; ++i) {
            const double* SILOT_RESTRICT c = cost_.row(i);
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
            for (const Int i : {first[j], second[j]}) arcs_[end[i]++] = {i, n_ + j, cost_.row(i)[j]};
    }

    // Pivots on the least cell of some whole rows at a time, until none is negative.
    void pivot_on_short_rows() {
        const Int block = std::max<Int>(3, static_cast<Int>(0.3 * std::sqrt(double(n_))));
        Int i = 0;
        for (Int idle = 0; idle < n_;) {
            double best = 0.0;
            Int row = -1;
            for (Int k = 0; k < block; ++k) {
                const double value = least(cost_.row(i), v_, m_) - potential_[i];
                if (value < best) best = value, row = i;
                i = i + 1 == n_ ? 0 : i + 1;
                ++idle;
            }
            if (row < 0) continue;
            const Int j = two_least(cost_.row(row), v_, m_).at;
            const Arc arc = {row, n_ + j, cost_.row(row)[j]};
            const double value = reduced(arc);
            if (!(value < 0.0) || !is_negative(value, arc)) continue;
            idle = 0;
            pivot(arc, value);
        }
    }

    // Pivots on whole rows, some at a time, until all of them in turn have no negative cell; whether
    // there was any.
    bool pivot_on_rows() {
        const std::int64_t before = pivots_;
        std::vector<Arc> arcs;
        Int i = 0;
        for (Int idle = 0; idle < n_;) {
            Arc least[residues];
            for (Int k = 0; k < block_ && k < n_; ++k) {
                const Int count = look(i, least);
                for (Int e = 0; e < count; ++e)
                    if (is_negative(reduced(least[e]), least[e])) arcs.push_back(least[e]);
                i = i + 1 == n_ ? 0 : i + 1;
                ++idle;
            }
            // What rounding alone made negative may be so no longer when it is computed again.
            if (pivot_on(arcs)) idle = 0;
        }
        return pivots_ > before;
    }

    const Mass* b_;
    double *out_u_, *out_v_;
    const double* v_;  // potentials of the columns
    // Rows that pivots choose among.
    Int block_ = std::max<Int>(4, static_cast<Int>(std::sqrt(double(n_)) / 2));
};

// Points of the smaller side from which on sweeps pay, and from which on a problem of a part of the
// points comes first; one of how many is in that part.
constexpr Int fewest_swept = 160, coarsest = 400, part = 4;
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
        const Int fewest = std::min(n_, m_);
        if (fewest < fewest_swept || fits_least_cells()) return;
        if (fewest >= coarsest) {
            solve_part();
            make_feasible();
        }
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
        for (Int i = 0; i < n_; ++i) u_[i] = least(row(i), v_, m_);
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
