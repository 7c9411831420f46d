// Common parts of the bindings. Bindings take and return typed arrays; they have no defaults, decide nothing, and never
// copy an input silently.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "gram/dispatch.hpp"

namespace mercer {

namespace nb = nanobind;

using Doubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstDoubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using DoubleRows = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstDoubleRows = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstFlags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstIndices = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstWords = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstUnits = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyVector = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
template <class Real>
using MatrixOf = nb::ndarray<Real, nb::ndim<2>, nb::device::cpu>;

inline void require(bool condition, const char* message) {
    if (!condition) throw nb::value_error(message);
}

inline void check_indices(const int64_t* indices, int64_t count, int64_t n) {
    uint64_t signs = 0;  // the highest bit is set if some index or some n - 1 - index is negative
    for (int64_t i = 0; i < count; ++i) {
        const auto index = static_cast<uint64_t>(indices[i]);
        signs |= index | (static_cast<uint64_t>(n) - 1 - index);
    }
    require(count == 0 || signs >> 63 == 0, "row indices must lie between 0 and the number of rows");
}

inline const Implementation& implementation(const std::string& isa) {
    const Implementation* chosen = find_implementation(isa.c_str());
    if (chosen == nullptr) throw nb::value_error("this machine or this build has no such instruction set");
    return *chosen;
}

// The constructor, from Python, of a struct from its members in their order.
template <class Struct, class... Members>
void construct(Struct* self, Members... members) {
    new (self) Struct{std::move(members)...};
}

// Returns a NumPy array of this shape that owns the values.
template <class Value, class... Sizes>
auto owned_as(std::vector<Value> values, Sizes... sizes) {
    auto* stored = new std::vector<Value>(std::move(values));
    nb::capsule owner(stored, [](void* p) noexcept { delete static_cast<std::vector<Value>*>(p); });
    return nb::ndarray<nb::numpy, Value, nb::ndim<sizeof...(Sizes)>>(stored->data(), {sizes...}, owner);
}

template <class Value>
auto owned(std::vector<Value> values) {
    const std::size_t size = values.size();
    return owned_as(std::move(values), size);
}

// Returns a NumPy array of `size` flags, which fill(flags) sets.
template <class Fill>
auto owned_flags(std::size_t size, Fill fill) {
    auto flags = std::make_unique<bool[]>(size);
    fill(flags.get());
    nb::capsule owner(flags.get(), [](void* p) noexcept { delete[] static_cast<bool*>(p); });
    return nb::ndarray<nb::numpy, bool, nb::ndim<1>>(flags.release(), {size}, owner);
}

template <class Matrix>
void check_padded(const Matrix& matrix, int64_t size) {
    require(static_cast<int64_t>(matrix.shape(0)) == size && static_cast<int64_t>(matrix.shape(1)) >= padded(size) &&
                (size <= 1 || matrix.stride(0) >= padded(size)) && (size == 0 || matrix.stride(1) == 1),
            "the matrix must have a row per variable, padded with zeros to a multiple of 16 columns");
}

void bind_bit_form(nb::module_& module);
void bind_block(nb::module_& module);
void bind_column_descent(nb::module_& module);
void bind_dual_descent(nb::module_& module);
void bind_gather(nb::module_& module);
void bind_integer_form(nb::module_& module);
void bind_leave_out(nb::module_& module);
void bind_linear(nb::module_& module);
void bind_lists(nb::module_& module);
void bind_machines(nb::module_& module);
void bind_pegasos(nb::module_& module);
void bind_points(nb::module_& module);
void bind_solvers(nb::module_& module);
void bind_sparse_form(nb::module_& module);
void bind_spread(nb::module_& module);
void bind_strings(nb::module_& module);
void bind_svmlight(nb::module_& module);
void bind_tiles(nb::module_& module);
void bind_variable_tiles(nb::module_& module);

}  // namespace mercer
