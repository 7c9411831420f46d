// Bindings of coordinate descent on columns, and on a quadratic function given by its matrix.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bindings/binding.hpp"
#include "bindings/linear_table.hpp"
#include "rows/column_descent.hpp"
#include "rows/lasso_descent.hpp"

namespace mercer {
namespace {

std::tuple<int64_t, double> column_descent(const LinearTableOfArrays& columns, ConstDoubles curvature,
                                           ConstDoubles pull, ConstDoubles penalty, ConstDoubles weight,
                                           ConstDoubles centre, Doubles u, Doubles change, ConstIndices chosen,
                                           double target, int64_t most, uint64_t seed) {
    const LinearTable& view = columns.view;
    const int64_t n = view.n_columns, q = view.n_rows + (view.constant != 0.0 ? 1 : 0);
    const auto is_sized = [](const auto& array, int64_t size) { return static_cast<int64_t>(array.shape(0)) == size; };
    require(is_sized(curvature, n) && is_sized(change, n), "curvature and change must have an element for each row");
    require(is_sized(pull, q) && is_sized(penalty, q) && is_sized(weight, q) && is_sized(centre, q) && is_sized(u, q),
            "pull, penalty, weight, centre and u must have an element for each column");
    check_indices(chosen.data(), static_cast<int64_t>(chosen.shape(0)), q);
    const ColumnModel model{
        view,          curvature.data(), pull.data(),   penalty.data(), weight.data(),
        centre.data(), u.data(),         change.data(), chosen.data(),  static_cast<int64_t>(chosen.shape(0)),
        seed};
    ColumnReport report{};
    {
        const ReleasedGil released;
        report = descend_columns(model, target, most);
    }
    check_range(report.in_range);
    return {report.n_passes, report.violation};
}

std::tuple<int64_t, double> lasso_descent(MatrixOf<const double> matrix, ConstDoubles penalty, Doubles gradient,
                                          Doubles u, double target, int64_t most) {
    const auto size = static_cast<int64_t>(u.shape(0));
    const auto is_sized = [&](const auto& array) { return static_cast<int64_t>(array.shape(0)) == size; };
    require(
        is_sized(matrix) && static_cast<int64_t>(matrix.shape(1)) == size && is_sized(penalty) && is_sized(gradient),
        "the matrix, the penalty and the gradient must have a row for each element");
    require(size == 0 || (matrix.stride(1) == 1 && matrix.stride(0) == size), "the matrix must be in C order");
    const ReleasedGil released;
    const LassoReport report =
        descend_lasso({matrix.data(), size, penalty.data(), gradient.data(), u.data()}, target, most);
    return {report.n_passes, report.violation};
}

}  // namespace

void bind_column_descent(nb::module_& m) {
    m.def("column_descent", &column_descent, nb::arg("columns"), nb::kw_only(), nb::arg("curvature").noconvert(),
          nb::arg("pull").noconvert(), nb::arg("penalty").noconvert(), nb::arg("weight").noconvert(),
          nb::arg("centre").noconvert(), nb::arg("u").noconvert(), nb::arg("change").noconvert(),
          nb::arg("chosen").noconvert(), nb::arg("target"), nb::arg("most"), nb::arg("seed"));
    m.def("lasso_descent", &lasso_descent, nb::arg("matrix").noconvert(), nb::arg("penalty").noconvert(),
          nb::arg("gradient").noconvert(), nb::arg("u").noconvert(), nb::kw_only(), nb::arg("target"), nb::arg("most"));
}

}  // namespace mercer
