// Rows of any type that the native linear solvers read, from NumPy arrays, which are not copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "bindings/binding.hpp"
#include "linear/row_access.hpp"

namespace mercer {

// Arrays of a table: the values of dense rows, or of CSR rows with `columns` and `ends` (SciPy's indices and indptr).
struct RowArrays {
    nb::ndarray<nb::ro, nb::device::cpu> values;
    std::optional<AnyVector> columns, ends;
    int64_t n, p;

    RowArrays(nb::ndarray<nb::ro, nb::device::cpu> values, std::optional<AnyVector> columns,
              std::optional<AnyVector> ends, int64_t n_columns)
        : values(values), columns(columns), ends(ends), p(n_columns) {
        require(p >= 0, "the number of columns must not be negative");
        if (!columns) {
            require(!ends && values.ndim() == 2 && static_cast<int64_t>(values.shape(1)) == p,
                    "dense rows must be a matrix with that number of columns");
            require(p == 1 || values.shape(0) == 0 || p == 0 || values.stride(1) == 1, "dense rows must be in C order");
            n = static_cast<int64_t>(values.shape(0));
            return;
        }
        require(ends && ends->shape(0) >= 1 && values.ndim() == 1 && values.shape(0) == columns->shape(0),
                "CSR rows must have as many values as columns, and the ends of the rows");
        require(values.shape(0) <= 1 || values.stride(0) == 1, "the values of CSR rows must be contiguous");
        n = static_cast<int64_t>(ends->shape(0)) - 1;
    }

    // Calls visit(rows) with rows of the right type, and returns its result.
    template <class Visit>
    auto rows(Visit visit) const {
        if (values.dtype() == nb::dtype<float>()) return of_value<float>(visit);
        if (values.dtype() == nb::dtype<double>()) return of_value<double>(visit);
        if (values.dtype() == nb::dtype<int8_t>()) return of_value<int8_t>(visit);
        throw nb::type_error("the values of rows must be float32, float64 or int8");
    }

  private:
    template <class Value, class Visit>
    auto of_value(Visit visit) const {
        const auto* data = static_cast<const Value*>(values.data());
        if (!columns) return visit(DenseRows<Value>{data, n, p, n ? values.stride(0) : 0});
        const bool wide_columns = is_wide(*columns), wide_ends = is_wide(*ends);
        require(wide_ends || !wide_columns, "64-bit column numbers need 64-bit ends of rows");
        if (wide_columns) return visit(sparse<Value, int64_t, int64_t>(data));
        if (wide_ends) return visit(sparse<Value, int32_t, int64_t>(data));
        return visit(sparse<Value, int32_t, int32_t>(data));
    }

    template <class Value, class Index, class End>
    auto sparse(const Value* data) const {
        const auto* column = static_cast<const Index*>(columns->data());
        const auto* end = static_cast<const End*>(ends->data());
        const auto count = static_cast<int64_t>(columns->shape(0));
        require(end[0] >= 0 && static_cast<int64_t>(end[n]) <= count && std::is_sorted(end, end + n + 1),
                "the ends of CSR rows must rise from 0 to the number of values");
        bool is_inside = true;
        for (int64_t at = 0; at < count; ++at) is_inside &= column[at] >= 0 && static_cast<int64_t>(column[at]) < p;
        require(is_inside, "columns of CSR rows must lie between 0 and the number of columns");
        return SparseRows<Value, Index, End>{data, column, end, n, p};
    }

    static bool is_wide(const AnyVector& numbers) {
        if (numbers.dtype() == nb::dtype<int64_t>()) return true;
        if (numbers.dtype() == nb::dtype<int32_t>()) return false;
        throw nb::type_error("columns and ends of CSR rows must be int32 or int64");
    }
};

}  // namespace mercer
