// Binding that converts a dense table to sparse rows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/tile_request.hpp"

namespace mercer {
namespace {

struct Form {
    std::vector<int64_t> ends;
    std::vector<int32_t> columns;
    std::vector<double> values;
};

template <class Real>
Form form_of(const AnyMatrix& table, const double* shift) {
    const auto n = static_cast<int64_t>(table.shape(0)), p = static_cast<int64_t>(table.shape(1));
    const auto* data = static_cast<const Real*>(table.data());
    const int64_t row_stride = table.stride(0), stride = table.stride(1);
    std::vector<Real> at_home(static_cast<std::size_t>(p));
    for (int64_t j = 0; j < p; ++j) at_home[static_cast<std::size_t>(j)] = static_cast<Real>(shift[j]);
    const Real* home = at_home.data();
    // The table is read twice, to count and then to fill, because touching too much new memory would take longer.
    auto each = [&](auto see) {
        for (int64_t i = 0; i < n; ++i) {
            const Real* row = data + i * row_stride;
            if (stride == 1)
                see(i, row, std::integral_constant<int64_t, 1>());
            else
                see(i, row, stride);
        }
    };
    Form form;
    form.ends.resize(static_cast<std::size_t>(n) + 1);
    each([&](int64_t i, const Real* row, auto step) {
        int64_t count = 0;
        for (int64_t j = 0; j < p; ++j) count += row[j * step] != home[j] ? 1 : 0;
        form.ends[static_cast<std::size_t>(i) + 1] = form.ends[static_cast<std::size_t>(i)] + count;
    });
    const auto total = static_cast<std::size_t>(form.ends.back());
    form.columns.resize(total + 1), form.values.resize(total + 1);  // one more element: writes are branchless
    int32_t* column = form.columns.data();
    double* value = form.values.data();
    each([&](int64_t, const Real* row, auto step) {
        for (int64_t j = 0; j < p; ++j) {
            const Real x = row[j * step];
            *column = static_cast<int32_t>(j), *value = static_cast<double>(x) - shift[j];
            const int64_t is_stored = x != home[j] ? 1 : 0;
            column += is_stored, value += is_stored;
        }
    });
    form.columns.resize(total), form.values.resize(total);
    return form;
}

auto sparse_rows(AnyMatrix table, ConstDoubles shift) {
    require(table.shape(1) == shift.shape(0), "the shift must have a number for each column");
    require(table.shape(1) <= static_cast<std::size_t>(std::numeric_limits<int32_t>::max()),
            "tables must have fewer than 2^31 columns");
    const Scalar scalar = scalar_of(table.dtype());
    Form form;
    {
        const ReleasedGil released;
        form = scalar == Scalar::f32 ? form_of<float>(table, shift.data()) : form_of<double>(table, shift.data());
    }
    return std::make_tuple(owned(std::move(form.ends)), owned(std::move(form.columns)), owned(std::move(form.values)));
}

}  // namespace

void bind_sparse_form(nb::module_& m) {
    m.def("sparse_rows", &sparse_rows, nb::arg("table").noconvert(), nb::arg("shift").noconvert());
}

}  // namespace mercer
