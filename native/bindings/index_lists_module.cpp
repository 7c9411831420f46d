// Bindings of operations on lists of indices that NumPy would need several passes for.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/index_lists.hpp"

namespace mercer {
namespace {

// out[places] += values. If an index occurs twice, both values are added.
void add_at(Doubles out, ConstIndices places, ConstDoubles values) {
    const auto count = static_cast<int64_t>(places.shape(0));
    require(values.shape(0) == places.shape(0), "values must have one number per place");
    check_indices(places.data(), count, static_cast<int64_t>(out.shape(0)));
    for (int64_t k = 0; k < count; ++k) out.data()[places.data()[k]] += values.data()[k];
}

// Returns the indices in `places` (or all from 0 to n - 1 without it) that are not in `removed`, in ascending order.
nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> without(ConstIndices removed, std::optional<ConstIndices> places,
                                                     int64_t n) {
    require(n >= 0, "n must not be negative");
    check_indices(removed.data(), static_cast<int64_t>(removed.shape(0)), n);
    if (places) check_indices(places->data(), static_cast<int64_t>(places->shape(0)), n);
    return owned(places_without(removed.data(), static_cast<int64_t>(removed.shape(0)),
                                places ? places->data() : nullptr, places ? static_cast<int64_t>(places->shape(0)) : 0,
                                n));
}

// Returns the unique numbers of `idx`, in the order of their last occurrences, and for each element of `idx` its
// position among them.
std::tuple<nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>, nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>> fold(
    ConstIndices idx, int64_t n) {
    require(n >= 0, "n must not be negative");
    const std::size_t count = idx.shape(0);
    check_indices(idx.data(), static_cast<int64_t>(count), n);
    std::vector<std::size_t> last(static_cast<std::size_t>(n));
    for (std::size_t k = 0; k < count; ++k) last[static_cast<std::size_t>(idx.data()[k])] = k;
    std::vector<int64_t> once(count + 1), places(count);  // one more element: writes are branchless
    std::size_t size = 0;
    for (std::size_t k = 0; k < count; ++k) {
        once[size] = idx.data()[k];
        places[k] = static_cast<int64_t>(size);  // correct at the last occurrence of each number
        size += last[static_cast<std::size_t>(idx.data()[k])] == k ? 1 : 0;
    }
    for (std::size_t k = 0; k < count; ++k) places[k] = places[last[static_cast<std::size_t>(idx.data()[k])]];
    once.resize(size);
    return {owned(std::move(once)), owned(std::move(places))};
}

}  // namespace

void bind_lists(nb::module_& m) {
    m.def("add_at", &add_at, nb::arg("out").noconvert(), nb::arg("places").noconvert(), nb::arg("values").noconvert());
    m.def("fold", &fold, nb::arg("idx").noconvert(), nb::arg("n"));
    m.def("without", &without, nb::arg("removed").noconvert(), nb::arg("places").noconvert().none(), nb::arg("n"));
}

}  // namespace mercer
