// Binding of the steps of Pegasos.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/binding.hpp"
#include "bindings/linear_table.hpp"
#include "rows/pegasos.hpp"

namespace mercer {
namespace {

constexpr std::size_t kTotals = 3;  // the numbers of a learner that all its machines share

struct Learner {
    DoubleRows v;
    std::optional<DoubleRows> lag;
    Doubles scale, sq_norm, mass, charged, totals;

    PegasosState state(int64_t p) const {
        const std::size_t n_machines = v.shape(1);
        require(static_cast<int64_t>(v.shape(0)) == p + 1, "v must have a row for each column and one more");
        require(!lag || (lag->shape(0) == v.shape(0) && lag->shape(1) == n_machines), "lag must have the shape of v");
        require(n_machines > 0 && scale.shape(0) == n_machines && sq_norm.shape(0) == n_machines &&
                    mass.shape(0) == n_machines && charged.shape(0) == n_machines && totals.shape(0) == kTotals,
                "there must be a scale, a norm, a mass and a charge for each machine, and three totals");
        double* shared = totals.data();
        return {p + 1,        static_cast<int64_t>(n_machines),
                v.data(),     lag ? lag->data() : nullptr,
                scale.data(), sq_norm.data(),
                mass.data(),  charged.data(),
                shared[0],    shared[1],
                shared[2]};
    }
};

struct Visits {
    ConstIndices order, codes;
    ConstDoubles weights, factors;
    std::optional<Doubles> hinge, wrong;

    PegasosVisits over(std::size_t n, std::size_t n_machines) const {
        const std::size_t count = order.shape(0);
        const std::size_t n_classes = n_machines == 1 ? 2 : n_machines;
        require(codes.shape(0) == n && weights.shape(0) == n && factors.shape(0) == n_classes,
                "there must be a code and a weight for each row, and a factor for each class");
        require(hinge.has_value() == wrong.has_value() &&
                    (!hinge || (hinge->shape(0) == count && wrong->shape(0) == count)),
                "there must be two losses for each visit, or none");
        check_indices(order.data(), static_cast<int64_t>(count), static_cast<int64_t>(n));
        for (std::size_t i = 0; i < count; ++i) {
            const int64_t code = codes.data()[order.data()[i]];
            require(0 <= code && code < static_cast<int64_t>(n_classes), "codes must be numbers of classes");
        }
        return {order.data(),
                static_cast<int64_t>(count),
                codes.data(),
                weights.data(),
                factors.data(),
                hinge ? hinge->data() : nullptr,
                wrong ? wrong->data() : nullptr};
    }
};

void pegasos_steps_on(const LinearTableOfArrays& table, const Visits& visits, const Learner& learner, double alpha,
                      int64_t batch_size, bool projects) {
    const LinearTable& view = table.view;
    const PegasosState state = learner.state(view.n_columns);
    const PegasosVisits visited = visits.over(static_cast<std::size_t>(view.n_rows), learner.v.shape(1));
    require(alpha > 0.0 && batch_size > 0, "alpha and the size of a batch must be positive");
    bool in_range = true;
    {
        const ReleasedGil released;
        in_range = pegasos_steps(view, state, {alpha, batch_size, projects}, visited);
    }
    check_range(in_range);
}

}  // namespace

void bind_pegasos(nb::module_& m) {
    using Losses = std::optional<Doubles>;
    nb::class_<Visits>(m, "PegasosVisits")
        .def("__init__", &construct<Visits, ConstIndices, ConstIndices, ConstDoubles, ConstDoubles, Losses, Losses>,
             nb::kw_only(), nb::arg("order").noconvert(), nb::arg("codes").noconvert(), nb::arg("weights").noconvert(),
             nb::arg("factors").noconvert(), nb::arg("hinge").noconvert().none(), nb::arg("wrong").noconvert().none());
    nb::class_<Learner>(m, "PegasosState")
        .def("__init__",
             &construct<Learner, DoubleRows, std::optional<DoubleRows>, Doubles, Doubles, Doubles, Doubles, Doubles>,
             nb::kw_only(), nb::arg("v").noconvert(), nb::arg("lag").noconvert().none(), nb::arg("scale").noconvert(),
             nb::arg("sq_norm").noconvert(), nb::arg("mass").noconvert(), nb::arg("charged").noconvert(),
             nb::arg("totals").noconvert());
    m.def("pegasos_steps", &pegasos_steps_on, nb::arg("table"), nb::arg("visits"), nb::arg("state"), nb::kw_only(),
          nb::arg("alpha"), nb::arg("batch_size"), nb::arg("projects"));
}

}  // namespace mercer
