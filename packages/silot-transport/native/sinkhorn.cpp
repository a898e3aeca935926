// One sweep of Sinkhorn's iteration in the log domain: rows are made exact and columns are summed
// in one pass over the costs, with one exponential an entry.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "rows.hpp"

namespace silot {
namespace SILOT_SET {
namespace {

// Powers of 2 with exponents in [-1/2, 1/2], by interpolation at Chebyshev's points.
template <class T>
struct Power;

template <>
struct Power<float> {
    using Bits = std::int32_t;
    static constexpr int digits = 23, bias = 127;
    // Below lies nothing that a sum of floats could tell, and products with weights stay normal.
    static constexpr float low = -100.f, high = 126.f;
    static float of(float t) {
        float p = 1.33908633646712344e-3f;
        p = p * t + 9.67603191832205408e-3f;
        p = p * t + 5.55035711421907782e-2f;
        p = p * t + 2.40221074853083375e-1f;
        p = p * t + 6.93147188026228781e-1f;
        return p * t + 1.00000007545489719f;
    }
};

template <>
struct Power<double> {
    using Bits = std::int64_t;
    static constexpr int digits = 52, bias = 1023;
    static constexpr double low = -900.0, high = 1022.0;
    static double of(double t) {
        double p = 4.45581790833606449e-10;
        p = p * t + 7.07419429728852101e-9;
        p = p * t + 1.01780570877339411e-7;
        p = p * t + 1.32154325359123762e-6;
        p = p * t + 1.52527338415567726e-5;
        p = p * t + 1.54035304637243542e-4;
        p = p * t + 1.33335581464064707e-3;
        p = p * t + 9.61812910758725667e-3;
        p = p * t + 5.5504108664821627e-2;
        p = p * t + 2.40226506959101596e-1;
        p = p * t + 6.93147180559945309e-1;
        return p * t + 1.0;
    }
};

template <class T>
inline T power(T y) {
    using P = Power<T>;
    y = y < P::low ? P::low : y;
    y = y > P::high ? P::high : y;
    // Truncated where it is positive: the nearest whole number.
    const std::int32_t whole = static_cast<std::int32_t>(y + (P::bias + T(0.5)));
    const T p = P::of(y - static_cast<T>(whole - P::bias));
    const typename P::Bits bits = static_cast<typename P::Bits>(whole) << P::digits;
    T scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

// Entries of a row whose sum is kept in T before it goes to a double.
constexpr Int stretch = 512;
// Rows whose plan is held at once, and rows whose column sums are kept in T.
constexpr Int together = 4, kept = 64;
// Sums that exponents relative to the guessed level may have and lose no digits.
constexpr double faint = 1e-9, loud = 1e9;

template <class T>
class Sweep {
  public:
    Sweep(Int m, const double* h, double scale)
        : m_(m), scale_(static_cast<T>(scale * log2e)), h_(m), plan_(std::size_t(m) * together) {
        for (Int j = 0; j < m; ++j) h_[j] = static_cast<T>(h[j] * log2e);
    }

    // Writes exp(h - scale c - level) to a row of the plan, and returns the log of the sum of
    // exp(h - scale c).
    double row(const T* c, Int k, double guess, bool known) {
        const double level = known ? guess * log2e : highest(c);
        double sum = write(c, k, level);
        double reached = level;
        if (!(sum > faint && sum < loud)) {
            reached = highest(c);
            sum = write(c, k, reached);
        }
        sums_[k] = sum;
        return (reached + std::log2(sum)) / log2e;
    }

    // Adds `count` rows with these masses to sums of columns, and returns what moving them costs.
    void add(Int count, const double* masses, T unit, T* SILOT_RESTRICT columns) const {
        T w[together] = {};
        for (Int k = 0; k < count; ++k) w[k] = static_cast<T>(masses[k] / sums_[k]) * unit;
        const T *p = plan(0), *q = plan(1), *r = plan(2), *s = plan(3);
        for (Int j = 0; j < m_; ++j)
            columns[j] += (w[0] * p[j] + w[1] * q[j]) + (w[2] * r[j] + w[3] * s[j]);
    }

    // What moving a row of mass 1 costs.
    double moved(const T* SILOT_RESTRICT c, Int k) const {
        const T* SILOT_RESTRICT p = plan(k);
        double sum = 0.0;
        for (Int j = 0; j < m_; ++j) sum += static_cast<double>(p[j]) * static_cast<double>(c[j]);
        return sum / sums_[k];
    }

  private:
    static constexpr double log2e = 1.4426950408889634074;

    const T* plan(Int k) const { return plan_.data() + static_cast<std::size_t>(k) * m_; }

    double highest(const T* SILOT_RESTRICT c) const {
        const T* SILOT_RESTRICT h = h_.data();
        T best = -std::numeric_limits<T>::max();
        for (Int j = 0; j < m_; ++j) {
            const T y = h[j] - scale_ * c[j];
            best = best > y ? best : y;
        }
        return best;
    }

    double write(const T* SILOT_RESTRICT c, Int k, double level) {
        const T* SILOT_RESTRICT h = h_.data();
        T* SILOT_RESTRICT out = plan_.data() + static_cast<std::size_t>(k) * m_;
        const T shift = static_cast<T>(level), scale = scale_;
        double sum = 0.0;
        for (Int j = 0; j < m_; j += stretch) {
            const Int end = std::min(m_, j + stretch);
            T part = 0;
            for (Int i = j; i < end; ++i) {
                const T e = power<T>((h[i] - scale * c[i]) - shift);
                out[i] = e;
                part += e;
            }
            sum += static_cast<double>(part);
        }
        return sum;
    }

    Int m_;
    T scale_;
    std::vector<T> h_, plan_;
    double sums_[together] = {};
};

template <class T>
double sweep(Int n, Int m, const T* cost, const double* a, const double* h, double scale,
             double damp, bool known, bool priced, double* levels, double* columns) {
    Sweep<T> sweep(m, h, scale);
    std::vector<T> part(m, 0);
    // Masses near 1: what a column gets from one row would be lost below the normal numbers.
    const T unit = static_cast<T>(n);
    double moved = 0.0;
    std::fill(columns, columns + m, 0.0);
    const auto flush = [&] {
        for (Int j = 0; j < m; ++j) {
            columns[j] += static_cast<double>(part[j]) / n;
            part[j] = 0;
        }
    };
    for (Int i = 0; i < n; i += together) {
        const Int count = std::min(together, n - i);
        double masses[together];
        for (Int k = 0; k < count; ++k) {
            const T* c = cost + static_cast<std::size_t>(i + k) * m;
            levels[i + k] = sweep.row(c, k, levels[i + k], known);
            masses[k] = a[i + k] * std::exp((1.0 - damp) * levels[i + k]);
            if (priced) moved += masses[k] * sweep.moved(c, k);
        }
        sweep.add(count, masses, unit, part.data());
        if ((i + together) % kept == 0) flush();
    }
    flush();
    return moved;
}

}  // namespace

double sweep_double(Int n, Int m, const double* cost, const double* a, const double* h,
                    double scale, double damp, bool known, bool priced, double* levels,
                    double* columns) {
    return sweep<double>(n, m, cost, a, h, scale, damp, known, priced, levels, columns);
}

double sweep_single(Int n, Int m, const float* cost, const double* a, const double* h,
                    double scale, double damp, bool known, bool priced, double* levels,
                    double* columns) {
    return sweep<float>(n, m, cost, a, h, scale, damp, known, priced, levels, columns);
}

}  // namespace SILOT_SET
}  // namespace silot
