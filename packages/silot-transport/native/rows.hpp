// What is done with a row of costs: written so that a compiler makes wide registers of it.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels.hpp"

namespace silot {
namespace SILOT_SET {

// Far above every reduced cost, and twice of it is still a number.
template <class T>
constexpr T far_away() {
    return std::numeric_limits<T>::max() / 4;
}

template <class T>
constexpr Int lanes() {
    return static_cast<Int>(64 / sizeof(T));
}

// The first place from `at` on, below m, where `holds`; m where there is none.
template <class T, class Holds>
inline Int first_place(Int at, Int m, Holds holds) {
    // Longer than what a compiler unrolls, instead of making wide registers of it.
    constexpr Int stretch = 4 * lanes<T>();
    for (; at + stretch <= m; at += stretch) {
        int any = 0;
        for (Int k = 0; k < stretch; ++k) any |= holds(at + k);
        if (any) break;
    }
    while (at < m && !holds(at)) ++at;
    return at;
}

template <class T>
struct Least {
    T first, second;
    Int at;
};

// The two least values of c - v, and where the least is first.
template <class T>
inline Least<T> two_least(const T* SILOT_RESTRICT c, const T* SILOT_RESTRICT v, Int m) {
    constexpr Int W = lanes<T>();
    T low[W], next[W];
    std::fill(low, low + W, std::numeric_limits<T>::max());
    std::fill(next, next + W, std::numeric_limits<T>::max());
    Int j = 0;
    for (; j + W <= m; j += W) {
        for (Int k = 0; k < W; ++k) {
            const T x = c[j + k] - v[j + k];
            const T high = low[k] > x ? low[k] : x;
            low[k] = low[k] < x ? low[k] : x;
            next[k] = next[k] < high ? next[k] : high;
        }
    }
    // Halves are folded, since one value after the other waits for the one before.
    for (Int half = W / 2; half > 0; half /= 2) {
        for (Int k = 0; k < half; ++k) {
            const T high = std::max(low[k], low[k + half]);
            low[k] = std::min(low[k], low[k + half]);
            next[k] = std::min(high, std::min(next[k], next[k + half]));
        }
    }
    T first = low[0], second = next[0];
    for (; j < m; ++j) {
        const T x = c[j] - v[j];
        second = x < first ? first : std::min(second, x);
        first = std::min(first, x);
    }
    const Int at = first_place<T>(0, m, [=](Int k) { return c[k] - v[k] <= first; });
    return {first, second, std::min(at, m - 1)};
}

// The least value of c - v.
template <class T>
inline T least(const T* SILOT_RESTRICT c, const T* SILOT_RESTRICT v, Int m) {
    constexpr Int W = lanes<T>();
    T low[W];
    std::fill(low, low + W, std::numeric_limits<T>::max());
    Int j = 0;
    for (; j + W <= m; j += W)
        for (Int k = 0; k < W; ++k) {
            const T x = c[j + k] - v[j + k];
            low[k] = x < low[k] ? x : low[k];
        }
    for (Int k = 0; j < m; ++j, ++k) low[k] = std::min(low[k], c[j] - v[j]);
    for (Int half = W / 2; half > 0; half /= 2)
        for (Int k = 0; k < half; ++k) low[k] = std::min(low[k], low[k + half]);
    return low[0];
}

// Distances over this row: d[j] = min(d[j], c[j] - v[j] + shift). Returns the least d.
template <class T>
inline T relax(const T* SILOT_RESTRICT c, const T* SILOT_RESTRICT v, T shift, Int row, Int m,
               T* SILOT_RESTRICT d, Int* SILOT_RESTRICT before) {
    T best = std::numeric_limits<T>::max();
    for (Int j = 0; j < m; ++j) {
        const T over = (c[j] - v[j]) + shift;
        const bool nearer = over < d[j];
        const T x = nearer ? over : d[j];
        d[j] = x;
        before[j] = nearer ? row : before[j];
        best = best < x ? best : x;
    }
    return best;
}

// The first place of `value` in d whose column no row has, if there is one nearby, or one
// `anywhere`; else the first.
template <class T>
inline Int place_of(T value, const T* SILOT_RESTRICT d, Int m, const Int* row, bool anywhere) {
    const Int first = first_place<T>(0, m, [=](Int j) { return d[j] <= value; });
    const Int end = anywhere ? m : std::min(m, first + lanes<T>());
    const Int free =
        first_place<T>(first, end, [=](Int j) { return (d[j] <= value) & (row[j] < 0); });
    return free < end ? free : std::min(first, m - 1);
}

}  // namespace SILOT_SET
}  // namespace silot
