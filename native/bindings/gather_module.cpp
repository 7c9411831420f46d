// Bindings that read cached rows, and build matrices of working sets from them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"
#include "gram/gather.hpp"

namespace mercer {
namespace {

void mirror_rows_of(MatrixOf<float> matrix, int64_t n_known, int n_threads) {
    const auto size = static_cast<int64_t>(matrix.shape(0));
    require(static_cast<int64_t>(matrix.shape(1)) == size && (size <= 1 || matrix.stride(1) == 1),
            "the matrix must be square, with contiguous rows");
    require(n_known >= 0 && n_known <= size, "there must be from 0 to all known rows");
    const ReleasedGil released;
    mirror_rows(matrix.data(), matrix.stride(0), size, n_known, n_threads);
}

template <class Real>
void compact_square_of(MatrixOf<Real> matrix, ConstIndices stay, int n_threads) {
    const auto n_stay = static_cast<int64_t>(stay.shape(0));
    require(matrix.shape(1) <= 1 || matrix.stride(1) == 1, "the matrix must have contiguous rows");
    check_indices(stay.data(), n_stay, static_cast<int64_t>(std::min(matrix.shape(0), matrix.shape(1))));
    require(std::adjacent_find(stay.data(), stay.data() + n_stay, std::greater_equal<>()) == stay.data() + n_stay,
            "kept indices must rise");
    const ReleasedGil released;
    compact_square(matrix.data(), matrix.stride(0), stay.data(), n_stay, n_threads);
}

template <class Cached>
CachedRows<Cached> make_cached(const MatrixOf<const Cached>& values, const ConstIndices& slots,
                               const std::optional<ConstIndices>& columns, int64_t least_slot) {
    require(values.shape(1) <= 1 || values.stride(1) == 1, "cached rows must be contiguous");
    const auto n_slots = static_cast<int64_t>(slots.shape(0)), n_cached = static_cast<int64_t>(values.shape(0));
    for (int64_t i = 0; i < n_slots; ++i)
        require(slots.data()[i] >= least_slot && slots.data()[i] < n_cached, "slots must be numbers of cached rows");
    const auto width = static_cast<int64_t>(values.shape(1));
    const int64_t n_columns = columns ? static_cast<int64_t>(columns->shape(0)) : width;
    if (columns) check_indices(columns->data(), n_columns, width);
    return {values.data(), values.stride(0), slots.data(), n_slots, columns ? columns->data() : nullptr, n_columns};
}

template <class Cached, class Real>
void gather_rows(MatrixOf<const Cached> values, ConstIndices slots, std::optional<ConstIndices> columns,
                 MatrixOf<Real> out, int n_threads) {
    const CachedRows<Cached> cached = make_cached<Cached>(values, slots, columns, 0);
    require(static_cast<int64_t>(out.shape(0)) == cached.n_slots &&
                static_cast<int64_t>(out.shape(1)) == cached.n_columns && (out.shape(1) <= 1 || out.stride(1) == 1),
            "out must have a row per slot, a column per column and contiguous rows");
    const ReleasedGil released;
    gather(cached, out.data(), out.stride(0), n_threads);
}

void gather_square_of(MatrixOf<const float> values, ConstIndices slots, ConstIndices columns,
                      MatrixOf<const float> square, MatrixOf<float> out, int n_threads) {
    const CachedRows<float> cached = make_cached<float>(values, slots, columns, -1);
    const auto n_missing = std::count(cached.slots, cached.slots + cached.n_slots, int64_t{-1});
    require(cached.n_columns == cached.n_slots && static_cast<int64_t>(out.shape(0)) == cached.n_slots &&
                static_cast<int64_t>(out.shape(1)) == cached.n_slots && (out.shape(1) <= 1 || out.stride(1) == 1),
            "out must have a row and a column per slot and contiguous rows, and there must be a column per slot");
    require(static_cast<int64_t>(square.shape(0)) == n_missing && static_cast<int64_t>(square.shape(1)) == n_missing &&
                (n_missing <= 1 || square.stride(1) == 1),
            "the square must have a row and a column per variable without a slot, with contiguous rows");
    const ReleasedGil released;
    gather_square(cached, square.data(), square.stride(0), out.data(), out.stride(0), n_threads);
}

void scatter_rows(MatrixOf<const float> values, ConstIndices slots, ConstIndices columns, MatrixOf<float> out) {
    const auto n_columns = static_cast<int64_t>(columns.shape(0));
    require(static_cast<int64_t>(values.shape(1)) == n_columns && out.shape(0) == slots.shape(0) &&
                (out.shape(1) <= 1 || out.stride(1) == 1),
            "values must have a column per column, out a row per slot and contiguous rows");
    check_indices(columns.data(), n_columns, static_cast<int64_t>(out.shape(1)));
    const CachedRows<float> cached = make_cached<float>(values, slots, std::nullopt, 0);
    const ReleasedGil released;
    scatter(cached, columns.data(), out.data(), out.stride(0));
}

template <class Cached>
void combine_rows(const std::string& isa, MatrixOf<const Cached> values, ConstIndices slots,
                  std::optional<ConstIndices> columns, ConstDoubles weights, Doubles out, int n_threads) {
    const CachedRows<Cached> cached = make_cached<Cached>(values, slots, columns, 0);
    require(static_cast<int64_t>(weights.shape(0)) == cached.n_slots &&
                static_cast<int64_t>(out.shape(0)) == cached.n_columns,
            "weights must have one number per slot, out one per column");
    const Combine<Cached> combine = combine_of<Cached>(implementation(isa));
    const ReleasedGil released;
    combine(cached, {weights.data(), out.data(), 1}, n_threads);
}

template <class Cached>
void combine_rows_each(const std::string& isa, MatrixOf<const Cached> values, ConstIndices slots,
                       std::optional<ConstIndices> columns, ConstDoubleRows weights, DoubleRows out, int n_threads) {
    const CachedRows<Cached> cached = make_cached<Cached>(values, slots, columns, 0);
    require(static_cast<int64_t>(weights.shape(1)) == cached.n_slots &&
                static_cast<int64_t>(out.shape(1)) == cached.n_columns && weights.shape(0) == out.shape(0),
            "weights must have one number per slot, out one per column, and both as many rows");
    const Combine<Cached> combine = combine_of<Cached>(implementation(isa));
    const ReleasedGil released;
    combine(cached, {weights.data(), out.data(), static_cast<int64_t>(out.shape(0))}, n_threads);
}

template <class Cached, class Real>
void bind_gather_rows(nb::module_& m) {
    m.def("gather_rows", &gather_rows<Cached, Real>, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert().none(), nb::arg("out").noconvert(), nb::arg("n_threads"));
}

template <class Cached>
void bind_combine_rows(nb::module_& m) {
    m.def("combine_rows", &combine_rows<Cached>, nb::arg("isa"), nb::arg("values").noconvert(),
          nb::arg("slots").noconvert(), nb::arg("columns").noconvert().none(), nb::arg("weights").noconvert(),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("combine_rows", &combine_rows_each<Cached>, nb::arg("isa"), nb::arg("values").noconvert(),
          nb::arg("slots").noconvert(), nb::arg("columns").noconvert().none(), nb::arg("weights").noconvert(),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
}

template <class Real>
void bind_compact_square(nb::module_& m) {
    m.def("compact_square", &compact_square_of<Real>, nb::arg("matrix").noconvert(), nb::arg("stay").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace

void bind_gather(nb::module_& m) {
    bind_compact_square<double>(m);
    bind_compact_square<float>(m);
    bind_gather_rows<double, double>(m);
    bind_gather_rows<float, double>(m);
    bind_gather_rows<double, float>(m);
    bind_gather_rows<float, float>(m);
    bind_combine_rows<double>(m);
    bind_combine_rows<float>(m);
    m.def("scatter_rows", &scatter_rows, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert(), nb::arg("out").noconvert());
    m.def("gather_square", &gather_square_of, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert(), nb::arg("square").noconvert(), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("mirror_rows", &mirror_rows_of, nb::arg("matrix").noconvert(), nb::arg("n_known"), nb::arg("n_threads"));
}

}  // namespace mercer
