// What the kernels are, once an instruction set: SILOT_SET names the one being compiled.
#pragma once

#include <cstdint>

#if defined(_MSC_VER)
#define SILOT_RESTRICT __restrict
#else
#define SILOT_RESTRICT __restrict__
#endif

// A loop of few steps that wide registers are to take as one: unrolled first, GCC makes them of the
// loop around it.
#if defined(__GNUC__) && !defined(__clang__)
#define SILOT_ROLLED _Pragma("GCC unroll 1")
#else
#define SILOT_ROLLED
#endif

namespace silot {

using Int = std::int32_t;
using Mass = std::int64_t;

// What a search took.
struct Effort {
    std::int64_t scans = 0;  // rows of costs that were read
    Int left = 0;            // rows that the first passes left over
};

struct Cell {
    Int row, column;
    Mass mass;
};

// Transport without a matrix of costs: see listed.cpp. Rows are given products with blocks of
// columns at the potentials of the moment; `lift` makes their values sound bounds.
struct Listed {
    virtual ~Listed() = default;
    virtual void lengthen() = 0;  // lists, to twice as many columns
    virtual void scan_begin(const Int* rows, Int count) = 0;
    // `which`: of the rows that the scan began with, those that the products are of.
    virtual void scan_block(const Int* which, Int count, const float* products,
                            const float* column, const float* base, const float* price, Int width,
                            Int offset) = 0;
    virtual void scan_block(const Int* which, Int count, const double* products,
                            const double* column, const double* base, const double* price,
                            Int width, Int offset) = 0;
    virtual void scan_bars(double* out) = 0;  // no column above changes a row's list
    virtual void scan_end(const double* lift) = 0;
    // All of it by a tree of boxes, at these prices; returns how many columns were looked at.
    virtual std::int64_t scan_tree(const Int* rows, Int count, const double* price,
                                   Int threads) = 0;

    // Until all that the lists could still gain is such a part of the cost, or so many seconds have
    // passed; 0 is neither.
    virtual void solve(double enough, double seconds) = 0;
    // Pivots on the lists of the rows that were scanned last.
    virtual void improve() = 0;
    virtual void prices(double* out) const = 0;
    virtual double least(Int row) const = 0;  // no reduced cost of the row was below, when scanned
    virtual Int cells(Cell* out) const = 0;
    virtual std::int64_t pivots() const = 0;
};

// Costs are row-major and finite. Potentials satisfy u[i] + v[j] <= cost[i, j] up to the rounding
// of one subtraction, with equality up to rounding of paths where mass moves.
struct Kernels {
    const char* name;

    // Assignment of n rows to n columns. In: v, potentials of the columns to start from. Out: u, v,
    // and the column of every row. Where the first passes leave more rows than `most`, only they
    // are done, and v is what they made of it.
    Effort (*assign)(Int n, const double* cost, Int most, double* u, double* v, Int* column);

    // All of it, searched in float32 on what v leaves of the costs, and settled in float64.
    Effort (*assign_mixed)(Int n, const double* cost, double* u, double* v, Int* column);

    // The same, searched among about so many cells of each row, which are joined by those that the
    // whole matrix asks for; false, and v as it was, where these are too many.
    bool (*assign_listed)(Int n, const double* cost, Int cells, double* u, double* v, Int* column,
                          Effort* effort);

    // Feasible potentials that are tight on an optimal assignment, by shortest paths from v;
    // false where the assignment is not optimal, or the paths do not settle. It is fast where u is
    // near the optimal one.
    bool (*settle)(Int n, const double* cost, double* u, double* v, const Int* column);

    // Potentials near the optimal ones of transport of whole masses a (n) to b (m).
    void (*near_potentials)(Int n, Int m, const double* cost, const Mass* a, const Mass* b,
                            double* u, double* v);

    // Transport of whole masses a (n) to b (m) of one sum. In: v, where it `has_columns` near the
    // optimal ones. Out: u, v, and a plan of n + m - 1 cells at most, whose number is returned.
    Int (*transport)(Int n, Int m, const double* cost, const Mass* a, const Mass* b,
                     bool has_columns, double* u, double* v, Cell* cells);

    // One Sinkhorn sweep. In: h, potentials of columns over epsilon and logs of their masses; scale,
    // 1 / epsilon; levels, near the result where they are `known`. Out: levels, the logs of the sums
    // of exp(h - scale cost) over rows; columns, sums of the plan whose rows have the masses
    // a exp((1 - damp) levels). Returns what that plan costs where it is to be `priced`.
    double (*sweep_double)(Int n, Int m, const double* cost, const double* a, const double* h,
                           double scale, double damp, bool known, bool priced, double* levels,
                           double* columns);
    double (*sweep_single)(Int n, Int m, const float* cost, const double* a, const double* h,
                           double scale, double damp, bool known, bool priced, double* levels,
                           double* columns);

    // Transport of `count` changes (size) that sum to 0, at one metric. Out: f, potentials with
    // f[i] - f[j] <= cost[i, j]; paid, what a flow costs for each unit of mass that moves.
    void (*labels)(std::int64_t count, Int size, const double* cost, const double* change,
                   double* f, double* paid);

    // Squared distances of `count` pairs of clouds of n points each, x and y (count, n, d): the mean
    // squared length of the best assignment. Costs must be finite, and squares not vanish.
    void (*clouds)(std::int64_t count, Int n, Int d, const double* x, const double* y,
                   double* mean);

    // Out: the least cost plus price (m) of every point of x (n, d) to those of y (m, d).
    void (*least_costs)(Int n, Int m, Int d, Int order, const double* x, const double* y,
                        const double* price, Int threads, double* least);

    Listed* (*listed)(Int n, Int m, Int d, Int k, Int order, const double* x, const double* y,
                      const double* shift, const Mass* a, const Mass* b, const double* price);
};

const Kernels& kernels_portable();
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();

}  // namespace silot
