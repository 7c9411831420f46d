// Bindings of leave-one-out updates: the solution without a row, from the solution with all rows.
#include <nanobind/ndarray.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "dual/loo_update.hpp"

namespace mercer {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ends = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

constexpr std::size_t kNumbers = 5;

Places distinct_places(const std::vector<LeaveOutResult>& results) {
    std::vector<int64_t> places;
    for (const LeaveOutResult& result : results) places.insert(places.end(), result.needs.begin(), result.needs.end());
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return owned(std::move(places));
}

// The tableau: its places, first those of basic variables, with the rows that are known (dual/loo_update.hpp).
struct TableauPlaces {
    int64_t n_basic;
    ConstDoubles values, point, lower, upper, drift;
    Matrix rows;
    ConstIndices slots;

    void check() const {
        const std::size_t n = values.shape(0);
        for (const ConstDoubles& array : {point, lower, upper, drift})
            require(array.shape(0) == n, "arrays must have an element for each place");
        require(slots.shape(0) == n && rows.shape(1) == n, "slots and rows must have an element for each place");
        require(n_basic >= 0 && n_basic <= static_cast<int64_t>(n), "basic variables must have places");
        for (std::size_t a = 0; a < n; ++a)
            require(slots.data()[a] >= -1 && slots.data()[a] < static_cast<int64_t>(rows.shape(0)),
                    "slots must be of rows");
    }
};

// The variables, each of which is removed alone.
struct RemovedVariables {
    Matrix own_rows;
    ConstIndices own_slots;
    ConstDoubles corner, gradient;
    ConstIndices main, partner;
    ConstDoubles amount, own_drift, total;

    void check(std::size_t n) const {
        const std::size_t count = main.shape(0);
        for (const ConstDoubles& array : {corner, gradient, amount, own_drift, total})
            require(array.shape(0) == count, "arrays must have an element for each variable");
        require(own_rows.shape(1) == n, "own_rows must have an element for each place");
        require(own_slots.shape(0) == count && partner.shape(0) == count,
                "every variable must have its row and its partner");
        for (std::size_t k = 0; k < count; ++k) {
            require(own_slots.data()[k] >= 0 && own_slots.data()[k] < static_cast<int64_t>(own_rows.shape(0)),
                    "variables must have different rows");
            require(std::min(main.data()[k], partner.data()[k]) >= -1 &&
                        std::max(main.data()[k], partner.data()[k]) < static_cast<int64_t>(n),
                    "places must be numbers of places, or -1");
        }
    }
};

Places leave_each_out(const TableauPlaces& places, const RemovedVariables& removed, double size, double tol_beta,
                      double tol_gradient, Ends ends, Numbers numbers, int n_threads) {
    const std::size_t n = places.values.shape(0), count = removed.main.shape(0);
    places.check();
    removed.check(n);
    require(ends.shape(0) == count && numbers.shape(0) == count && numbers.shape(1) == kNumbers,
            "every variable must have an end and five numbers");
    const LeaveOutBatch batch{places.n_basic,
                              static_cast<int64_t>(n),
                              places.values.data(),
                              places.point.data(),
                              places.lower.data(),
                              places.upper.data(),
                              places.rows.data(),
                              places.slots.data(),
                              static_cast<int64_t>(count),
                              removed.own_rows.data(),
                              removed.own_slots.data(),
                              removed.corner.data(),
                              removed.gradient.data(),
                              removed.main.data(),
                              removed.partner.data(),
                              removed.amount.data(),
                              places.drift.data(),
                              removed.own_drift.data(),
                              removed.total.data(),
                              size,
                              tol_beta,
                              tol_gradient};
    std::vector<LeaveOutResult> results(count);
    {
        const ReleasedGil released;
        leave_out(batch, results.data(), std::max(1, n_threads));
    }
    for (std::size_t k = 0; k < count; ++k) {
        const LeaveOutResult& r = results[k];
        ends.data()[k] = static_cast<int64_t>(r.end);
        double* out = numbers.data() + k * kNumbers;
        const double entries[kNumbers] = {r.gradient, static_cast<double>(r.n_pivots), r.squared, r.gradients,
                                          r.violation};
        std::copy(entries, entries + kNumbers, out);
    }
    return distinct_places(results);
}

}  // namespace

void bind_leave_out(nb::module_& m) {
    nb::class_<TableauPlaces>(m, "TableauPlaces")
        .def("__init__",
             &construct<TableauPlaces, int64_t, ConstDoubles, ConstDoubles, ConstDoubles, ConstDoubles, ConstDoubles,
                        Matrix, ConstIndices>,
             nb::kw_only(), nb::arg("n_basic"), nb::arg("values").noconvert(), nb::arg("point").noconvert(),
             nb::arg("lower").noconvert(), nb::arg("upper").noconvert(), nb::arg("drift").noconvert(),
             nb::arg("rows").noconvert(), nb::arg("slots").noconvert());
    nb::class_<RemovedVariables>(m, "RemovedVariables")
        .def("__init__",
             &construct<RemovedVariables, Matrix, ConstIndices, ConstDoubles, ConstDoubles, ConstIndices, ConstIndices,
                        ConstDoubles, ConstDoubles, ConstDoubles>,
             nb::kw_only(), nb::arg("own_rows").noconvert(), nb::arg("own_slots").noconvert(),
             nb::arg("corner").noconvert(), nb::arg("gradient").noconvert(), nb::arg("main").noconvert(),
             nb::arg("partner").noconvert(), nb::arg("amount").noconvert(), nb::arg("own_drift").noconvert(),
             nb::arg("total").noconvert());
    m.def("leave_out", &leave_each_out, nb::arg("places"), nb::arg("removed"), nb::kw_only(), nb::arg("size"),
          nb::arg("tol_beta"), nb::arg("tol_gradient"), nb::arg("ends").noconvert(), nb::arg("numbers").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace mercer
