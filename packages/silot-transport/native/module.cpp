// What Python calls: arrays are checked, the interpreter is let go, and the kernels of the widest
// instruction set that this processor has are run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels.hpp"

namespace nb = nanobind;
using namespace silot;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// Those that this processor runs, the widest first.
std::vector<const Kernels*> usable() {
    std::vector<const Kernels*> found;
#if defined(SILOT_HAS_avx512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        found.push_back(&kernels_avx512());
#endif
#if defined(SILOT_HAS_avx2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        found.push_back(&kernels_avx2());
#endif
    found.push_back(&kernels_portable());
    return found;
}

const Kernels*& chosen() {
    static const Kernels* kernels = usable().front();
    return kernels;
}

std::vector<std::string> sets() {
    std::vector<std::string> names;
    for (const Kernels* kernels : usable()) names.emplace_back(kernels->name);
    return names;
}

std::string use(const std::string& name) {
    for (const Kernels* kernels : usable())
        if (name == kernels->name) {
            chosen() = kernels;
            return name;
        }
    throw nb::value_error("this processor has no such instruction set");
}

void need(bool holds, const char* what) {
    if (!holds) throw nb::value_error(what);
}

// Searches compare, and what is no number compares with nothing.
template <class T>
void need_finite(const Vector<T>& v) {
    for (std::size_t j = 0; j < v.shape(0); ++j)
        need(std::isfinite(v.data()[j]), "potentials must be finite");
}

template <class Columns>
std::size_t need_square(const Matrix<const double>& cost, const Vector<double>& u,
                        const Vector<double>& v, const Columns& column) {
    const std::size_t n = cost.shape(0);
    need(n > 0 && n < (1u << 30) && cost.shape(1) == n && u.shape(0) == n && v.shape(0) == n &&
             column.shape(0) == n,
         "costs (n, n), potentials (n,) and columns (n,) are needed");
    need_finite(v);
    return n;
}

nb::tuple effort_of(const Effort& effort) { return nb::make_tuple(effort.scans, effort.left); }

nb::tuple assign(Matrix<const double> cost, Int most, Vector<double> u, Vector<double> v,
                 Vector<Int> column) {
    const std::size_t n = need_square(cost, u, v, column);
    need(most >= 0, "a number of rows is needed");
    const Kernels* kernels = chosen();
    Effort effort;
    {
        nb::gil_scoped_release free;
        effort = kernels->assign(static_cast<Int>(n), cost.data(), most, u.data(), v.data(),
                                 column.data());
    }
    return effort_of(effort);
}

nb::tuple assign_mixed(Matrix<const double> cost, Vector<double> u, Vector<double> v,
                       Vector<Int> column) {
    const std::size_t n = need_square(cost, u, v, column);
    const Kernels* kernels = chosen();
    Effort effort;
    {
        nb::gil_scoped_release free;
        effort = kernels->assign_mixed(static_cast<Int>(n), cost.data(), u.data(), v.data(),
                                       column.data());
    }
    return effort_of(effort);
}

// Effort, or None where it was given up.
nb::object assign_listed(Matrix<const double> cost, Int cells, Vector<double> u, Vector<double> v,
                         Vector<Int> column) {
    const std::size_t n = need_square(cost, u, v, column);
    need(cells > 0, "at least one cell a row is needed");
    const Kernels* kernels = chosen();
    Effort effort;
    bool found;
    {
        nb::gil_scoped_release free;
        found = kernels->assign_listed(static_cast<Int>(n), cost.data(), cells, u.data(), v.data(),
                                       column.data(), &effort);
    }
    return found ? nb::object(effort_of(effort)) : nb::none();
}

bool settle(Matrix<const double> cost, Vector<double> u, Vector<double> v,
            Vector<const Int> column) {
    const std::size_t n = need_square(cost, u, v, column);
    std::vector<char> used(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
        const Int j = column.data()[i];
        need(j >= 0 && static_cast<std::size_t>(j) < n && !used[j], "columns must be a permutation");
        used[j] = 1;
    }
    const Kernels* kernels = chosen();
    nb::gil_scoped_release free;
    return kernels->settle(static_cast<Int>(n), cost.data(), u.data(), v.data(), column.data());
}

// Masses are counts of one sum.
void balanced(Vector<const Mass>& a, Vector<const Mass>& b) {
    Mass supply = 0, demand = 0;
    const auto count = [](Vector<const Mass>& masses, Mass& sum) {
        for (std::size_t i = 0; i < masses.shape(0); ++i) {
            const Mass mass = masses.data()[i];
            need(mass >= 0 && mass <= (Mass{1} << 62) - sum, "masses must not be negative");
            sum += mass;
        }
    };
    count(a, supply);
    count(b, demand);
    need(supply == demand && supply > 0, "masses must have one sum");
}

std::size_t need_masses(Matrix<const double>& cost, Vector<const Mass>& a, Vector<const Mass>& b,
                        Vector<double>& u, Vector<double>& v) {
    const std::size_t n = cost.shape(0), m = cost.shape(1);
    need(n > 0 && m > 0 && n < (1u << 29) && m < (1u << 29) && a.shape(0) == n &&
             b.shape(0) == m && u.shape(0) == n && v.shape(0) == m,
         "costs (n, m), masses and potentials (n,), (m,) are needed");
    balanced(a, b);
    return n;
}

void near_potentials(Matrix<const double> cost, Vector<const Mass> a, Vector<const Mass> b,
                     Vector<double> u, Vector<double> v) {
    const std::size_t n = need_masses(cost, a, b, u, v), m = cost.shape(1);
    const Kernels* kernels = chosen();
    nb::gil_scoped_release free;
    kernels->near_potentials(static_cast<Int>(n), static_cast<Int>(m), cost.data(), a.data(),
                             b.data(), u.data(), v.data());
}

Int transport(Matrix<const double> cost, Vector<const Mass> a, Vector<const Mass> b,
              bool has_columns, Vector<double> u, Vector<double> v, Vector<Int> rows,
              Vector<Int> columns, Vector<Mass> masses) {
    const std::size_t n = need_masses(cost, a, b, u, v), m = cost.shape(1), most = n + m - 1;
    need(rows.shape(0) == most && columns.shape(0) == most && masses.shape(0) == most,
         "room for n + m - 1 cells is needed");
    if (has_columns) need_finite(v);
    const Kernels* kernels = chosen();
    nb::gil_scoped_release free;
    std::vector<Cell> cells(most);
    const Int count =
        kernels->transport(static_cast<Int>(n), static_cast<Int>(m), cost.data(), a.data(),
                           b.data(), has_columns, u.data(), v.data(), cells.data());
    for (Int k = 0; k < count; ++k) {
        rows.data()[k] = cells[k].row;
        columns.data()[k] = cells[k].column;
        masses.data()[k] = cells[k].mass;
    }
    return count;
}

template <class T>
double sweep(Matrix<const T> cost, Vector<const double> a, Vector<const double> h, double scale,
             double damp, bool known, bool priced, Vector<double> levels,
             Vector<double> columns) {
    const std::size_t n = cost.shape(0), m = cost.shape(1);
    need(n > 0 && m > 0 && n < (1u << 30) && m < (1u << 30) && a.shape(0) == n &&
             h.shape(0) == m && levels.shape(0) == n && columns.shape(0) == m,
         "costs (n, m), masses and levels (n,), potentials and sums (m,) are needed");
    const auto run = [] {
        if constexpr (std::is_same_v<T, double>)
            return chosen()->sweep_double;
        else
            return chosen()->sweep_single;
    }();
    nb::gil_scoped_release free;
    return run(static_cast<Int>(n), static_cast<Int>(m), cost.data(), a.data(), h.data(), scale,
               damp, known, priced, levels.data(), columns.data());
}

void labels(Matrix<const double> cost, Matrix<const double> change, Matrix<double> f,
            Vector<double> paid) {
    const std::size_t size = cost.shape(0), count = change.shape(0);
    need(size > 0 && size < (1u << 15) && cost.shape(1) == size && change.shape(1) == size &&
             f.shape(0) == count && f.shape(1) == size && paid.shape(0) == count,
         "costs (L, L), changes and potentials (n, L) and costs (n,) are needed");
    const Kernels* kernels = chosen();
    nb::gil_scoped_release free;
    kernels->labels(static_cast<std::int64_t>(count), static_cast<Int>(size), cost.data(),
                     change.data(), f.data(), paid.data());
}

void clouds(Cube<const double> x, Cube<const double> y, Vector<double> mean) {
    const std::size_t count = x.shape(0), n = x.shape(1), d = x.shape(2);
    need(n > 0 && n < (1u << 15) && d > 0 && d < (1u << 30) && y.shape(0) == count &&
             y.shape(1) == n && y.shape(2) == d && mean.shape(0) == count,
         "clouds (N, n, d) of one shape and means (N,) are needed");
    const Kernels* kernels = chosen();
    nb::gil_scoped_release free;
    kernels->clouds(static_cast<std::int64_t>(count), static_cast<Int>(n), static_cast<Int>(d),
                    x.data(), y.data(), mean.data());
}

// What it reads is kept as long as it is.
void least_costs(Matrix<const double> x, Matrix<const double> y, Vector<const double> price,
                 Int order, Int threads, Vector<double> least) {
    const std::size_t n = x.shape(0), m = y.shape(0), d = x.shape(1);
    need(n < (1u << 30) && m > 0 && m < (1u << 30) && y.shape(1) == d && price.shape(0) == m &&
             least.shape(0) == n && (order == 1 || order == 2) && threads > 0,
         "points (n, d) and (m, d), prices (m,), an order, threads and room (n,) are needed");
    const Kernels* kernels = chosen();
    nb::gil_scoped_release free;
    kernels->least_costs(static_cast<Int>(n), static_cast<Int>(m), static_cast<Int>(d), order,
                         x.data(), y.data(), price.data(), threads, least.data());
}

class ListedTransport {
  public:
    ListedTransport(Matrix<const double> x, Matrix<const double> y, Vector<const double> shift,
                    Vector<const Mass> a, Vector<const Mass> b, Vector<const double> price, Int k,
                    Int order)
        : x_(x), y_(y), shift_(shift), n_(x.shape(0)), m_(y.shape(0)) {
        const std::size_t d = x.shape(1);
        need(n_ > 0 && m_ > 0 && n_ < (1u << 30) && m_ < (1u << 30) && y.shape(1) == d &&
                 shift.shape(0) == d && a.shape(0) == n_ && b.shape(0) == m_ &&
                 price.shape(0) == m_ && k > 0 && (order == 1 || order == 2),
             "points (n, d), (m, d), a shift (d,), masses, prices (m,), k and an order are needed");
        balanced(a, b);
        listed_.reset(chosen()->listed(static_cast<Int>(n_), static_cast<Int>(m_),
                                       static_cast<Int>(d), k, order, x.data(), y.data(),
                                       shift.data(), a.data(), b.data(), price.data()));
    }

    void lengthen() { listed_->lengthen(); }

    void scan_begin(Vector<const Int> rows) {
        check_rows(rows);
        count_ = rows.shape(0);
        listed_->scan_begin(rows.data(), static_cast<Int>(count_));
    }

    template <class T>
    void scan_block(Vector<const Int> which, Matrix<const T> products, Vector<const T> column,
                    Vector<const T> base, Vector<const T> price, Int offset) {
        const std::size_t count = which.shape(0), width = products.shape(1);
        need(products.shape(0) == count && column.shape(0) == width && base.shape(0) == count &&
                 price.shape(0) == width && offset >= 0 && offset + width <= m_,
             "products (rows, width) with a number a column and a row are needed");
        for (std::size_t k = 0; k < count; ++k)
            need(which.data()[k] >= 0 && static_cast<std::size_t>(which.data()[k]) < count_,
                 "rows must be of those that the scan began with");
        nb::gil_scoped_release free;
        listed_->scan_block(which.data(), static_cast<Int>(count), products.data(), column.data(),
                            base.data(), price.data(), static_cast<Int>(width), offset);
    }

    void scan_bars(Vector<double> out) {
        need(out.shape(0) == count_, "one number a row is needed");
        nb::gil_scoped_release free;
        listed_->scan_bars(out.data());
    }

    void scan_end(Vector<const double> lift) {
        need(lift.shape(0) == count_, "one number a row is needed");
        nb::gil_scoped_release free;
        listed_->scan_end(lift.data());
        count_ = 0;
    }

    std::int64_t scan_tree(Vector<const Int> rows, Vector<const double> price, Int threads) {
        need(price.shape(0) == m_ && threads > 0, "a price a column and threads are needed");
        check_rows(rows);
        nb::gil_scoped_release free;
        return listed_->scan_tree(rows.data(), static_cast<Int>(rows.shape(0)), price.data(),
                                  threads);
    }

    void solve(double enough, double seconds) {
        nb::gil_scoped_release free;
        listed_->solve(enough, seconds);
    }

    void improve() {
        nb::gil_scoped_release free;
        listed_->improve();
    }

    std::int64_t pivots() const { return listed_->pivots(); }

    void prices(Vector<double> out) const {
        need(out.shape(0) == m_, "room for all columns is needed");
        listed_->prices(out.data());
    }

    void least(Vector<double> out) const {
        need(out.shape(0) == n_, "room for all rows is needed");
        for (std::size_t i = 0; i < n_; ++i) out.data()[i] = listed_->least(static_cast<Int>(i));
    }

    Int cells(Vector<Int> rows, Vector<Int> columns, Vector<Mass> masses) const {
        std::vector<Cell> cells(n_ + m_ - 1);
        need(rows.shape(0) == cells.size() && columns.shape(0) == cells.size() &&
                 masses.shape(0) == cells.size(),
             "room for n + m - 1 cells is needed");
        const Int count = listed_->cells(cells.data());
        for (Int k = 0; k < count; ++k) {
            rows.data()[k] = cells[k].row;
            columns.data()[k] = cells[k].column;
            masses.data()[k] = cells[k].mass;
        }
        return count;
    }

  private:
    void check_rows(Vector<const Int> rows) const {
        std::vector<char> seen(n_, 0);
        for (std::size_t r = 0; r < rows.shape(0); ++r) {
            const Int i = rows.data()[r];
            need(i >= 0 && static_cast<std::size_t>(i) < n_ && !seen[i], "rows must be distinct");
            seen[i] = 1;
        }
    }

    Matrix<const double> x_, y_;
    Vector<const double> shift_;
    std::size_t n_, m_, count_ = 0;
    std::unique_ptr<Listed> listed_;
};

}  // namespace

NB_MODULE(_kernels, m) {
    m.def("sets", &sets, "Instruction sets that this processor has kernels for, widest first.");
    m.def("use", &use, "Use the kernels of an instruction set; all threads do.");
    m.def("used", [] { return std::string(chosen()->name); }, "The instruction set in use.");
    // Arrays are taken as they are: what is written to a converted copy would be lost.
    const auto as = [](const char* name) { return nb::arg(name).noconvert(); };
    m.def("assign", &assign, as("cost"), nb::arg("most"), as("u"), as("v"), as("column"));
    m.def("assign_mixed", &assign_mixed, as("cost"), as("u"), as("v"), as("column"));
    m.def("assign_listed", &assign_listed, as("cost"), nb::arg("cells"), as("u"), as("v"),
          as("column"));
    m.def("settle", &settle, as("cost"), as("u"), as("v"), as("column"));
    m.def("near_potentials", &near_potentials, as("cost"), as("a"), as("b"), as("u"), as("v"));
    m.def("transport", &transport, as("cost"), as("a"), as("b"), nb::arg("has_columns"), as("u"),
          as("v"), as("rows"), as("columns"), as("masses"));
    m.def("sweep", &sweep<double>, as("cost"), as("a"), as("h"), nb::arg("scale"),
          nb::arg("damp"), nb::arg("known"), nb::arg("priced"), as("levels"), as("columns"));
    m.def("sweep", &sweep<float>, as("cost"), as("a"), as("h"), nb::arg("scale"), nb::arg("damp"),
          nb::arg("known"), nb::arg("priced"), as("levels"), as("columns"));
    m.def("labels", &labels, as("cost"), as("change"), as("f"), as("paid"));
    m.def("clouds", &clouds, as("x"), as("y"), as("mean"));
    m.def("least_costs", &least_costs, as("x"), as("y"), as("price"), nb::arg("order"),
          nb::arg("threads"), as("least"));
    nb::class_<ListedTransport>(m, "Listed")
        .def(nb::init<Matrix<const double>, Matrix<const double>, Vector<const double>,
                      Vector<const Mass>, Vector<const Mass>, Vector<const double>, Int, Int>())
        .def("lengthen", &ListedTransport::lengthen)
        .def("scan_begin", &ListedTransport::scan_begin)
        .def("scan_block", &ListedTransport::scan_block<float>)
        .def("scan_block", &ListedTransport::scan_block<double>)
        .def("scan_bars", &ListedTransport::scan_bars)
        .def("scan_end", &ListedTransport::scan_end)
        .def("scan_tree", &ListedTransport::scan_tree)
        .def("solve", &ListedTransport::solve)
        .def("improve", &ListedTransport::improve)
        .def("pivots", &ListedTransport::pivots)
        .def("prices", &ListedTransport::prices)
        .def("least", &ListedTransport::least)
        .def("cells", &ListedTransport::cells);
}
