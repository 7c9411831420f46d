// The table of a linear machine, as Python passes it: views of NumPy arrays, which are not copied.
#pragma once

#include <cmath>

#include "bindings/binding.hpp"
#include "gram/tile_request.hpp"
#include "rows/table.hpp"

namespace mercer {

inline LinearTable::Value value_of(nb::dlpack::dtype type) {
    if (type == nb::dtype<float>()) return LinearTable::Value::f32;
    if (type == nb::dtype<double>()) return LinearTable::Value::f64;
    if (type == nb::dtype<int8_t>()) return LinearTable::Value::i8;
    if (type == nb::dtype<uint8_t>()) return LinearTable::Value::u8;
    throw nb::type_error("the rows must be float32, float64, int8 or uint8; convert the table");
}

inline void check_range(bool in_range) {
    require(in_range, "a sparse table has a column index or a row pointer out of range; rebuild it");
}

// A table with the arrays that it views.
class LinearTableOfArrays {
  public:
    LinearTableOfArrays(AnyMatrix array, double constant) : data_(nb::cast(array)) {
        const auto n = static_cast<int64_t>(array.shape(0)), p = static_cast<int64_t>(array.shape(1));
        require(p > 0 && std::isfinite(constant), "the table must have a column, and the constant must be finite");
        const int64_t stride = n > 1 ? array.stride(0) : p;
        require((n == 0 || p == 1 || array.stride(1) == 1) && stride >= p,
                "a dense table must be in C order, and its rows must not overlap; use numpy.ascontiguousarray");
        view = {n, p, constant, value_of(array.dtype()), array.data(), stride, nullptr, nullptr, false, false, 0};
    }

    LinearTableOfArrays(AnyVector data, AnyVector indices, AnyVector indptr, int64_t n_columns, double constant)
        : data_(nb::cast(data)), indices_(nb::cast(indices)), indptr_(nb::cast(indptr)) {
        const auto n_entries = static_cast<int64_t>(data.shape(0));
        require(n_columns > 0 && std::isfinite(constant),
                "the table must have a column, and the constant must be finite");
        require(indptr.shape(0) > 0 && static_cast<int64_t>(indices.shape(0)) == n_entries,
                "indptr must have an element more than the table has rows, and indices the length of data");
        view = {static_cast<int64_t>(indptr.shape(0)) - 1,
                n_columns,
                constant,
                value_of(data.dtype()),
                data.data(),
                0,
                indices.data(),
                indptr.data(),
                is_wide(indices.dtype()),
                is_wide(indptr.dtype()),
                n_entries};
    }

    LinearTable view;

  private:
    nb::object data_, indices_, indptr_;
};

}  // namespace mercer
