// Binding of the steps of Pegasos on dense and sparse rows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/binding.hpp"
#include "kernels/tile_request.hpp"
#include "linear/pegasos.hpp"

namespace mercer {
namespace {

using ContiguousMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

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

PegasosRule rule_of(double alpha, double constant, int64_t batch_size, bool projects) {
    require(alpha > 0.0 && batch_size > 0, "alpha and the size of a batch must be positive");
    return {alpha, constant, batch_size, projects};
}

template <class Rows>
void run(const Rows& rows, const PegasosState& state, const PegasosRule& rule, const PegasosVisits& visits) {
    const ReleasedGil released;
    Pegasos<Rows>(rows, state, rule).run(visits);
}

// Checks the entries of the rows that will be visited.
template <class Index, class Pointer>
void check_entries(const Index* indices, int64_t n_entries, const Pointer* indptr, int64_t n_columns,
                   const PegasosVisits& visits) {
    for (int64_t i = 0; i < visits.count; ++i) {
        const auto first = static_cast<int64_t>(indptr[visits.order[i]]);
        const auto last = static_cast<int64_t>(indptr[visits.order[i] + 1]);
        require(0 <= first && first <= last && last <= n_entries,
                "indptr must not decrease nor pass the number of entries");
        for (int64_t e = first; e < last; ++e)
            require(0 <= static_cast<int64_t>(indices[e]) && static_cast<int64_t>(indices[e]) < n_columns,
                    "column indices must lie between 0 and the number of columns");
    }
}

void dense_steps(ContiguousMatrix table, ConstIndices order, ConstIndices codes, ConstDoubles weights,
                 ConstDoubles factors, std::optional<Doubles> hinge, std::optional<Doubles> wrong, DoubleRows v,
                 std::optional<DoubleRows> lag, Doubles scale, Doubles sq_norm, Doubles mass, Doubles charged,
                 Doubles totals, double alpha, double constant, int64_t batch_size, bool projects) {
    const auto p = static_cast<int64_t>(table.shape(1));
    const PegasosState state = Learner{v, lag, scale, sq_norm, mass, charged, totals}.state(p);
    const PegasosVisits visits = Visits{order, codes, weights, factors, hinge, wrong}.over(table.shape(0), v.shape(1));
    const PegasosRule rule = rule_of(alpha, constant, batch_size, projects);
    const auto on = [&]<class Real>() {
        const DenseRows<Real> rows{static_cast<const Real*>(table.data()), p};
        run(rows, state, rule, visits);
    };
    if (scalar_of(table.dtype()) == Scalar::f32)
        on.template operator()<float>();
    else
        on.template operator()<double>();
}

void sparse_steps(AnyVector data, AnyVector indices, AnyVector indptr, ConstIndices order, ConstIndices codes,
                  ConstDoubles weights, ConstDoubles factors, std::optional<Doubles> hinge,
                  std::optional<Doubles> wrong, DoubleRows v, std::optional<DoubleRows> lag, Doubles scale,
                  Doubles sq_norm, Doubles mass, Doubles charged, Doubles totals, double alpha, double constant,
                  int64_t batch_size, bool projects) {
    require(indptr.shape(0) > 0 && data.shape(0) == indices.shape(0), "there must be a column index for each entry");
    const int64_t p = static_cast<int64_t>(v.shape(0)) - 1;
    const PegasosState state = Learner{v, lag, scale, sq_norm, mass, charged, totals}.state(p);
    const PegasosVisits visits =
        Visits{order, codes, weights, factors, hinge, wrong}.over(indptr.shape(0) - 1, v.shape(1));
    const PegasosRule rule = rule_of(alpha, constant, batch_size, projects);
    const auto on = [&]<class Real, class Index, class Pointer>() {
        const SparseRows<Real, Index, Pointer> rows{static_cast<const Real*>(data.data()),
                                                    static_cast<const Index*>(indices.data()),
                                                    static_cast<const Pointer*>(indptr.data())};
        check_entries(rows.indices, static_cast<int64_t>(indices.shape(0)), rows.indptr, p, visits);
        run(rows, state, rule, visits);
    };
    const auto with_pointers = [&]<class Real, class Index>() {
        if (is_wide(indptr.dtype()))
            on.template operator()<Real, Index, int64_t>();
        else
            on.template operator()<Real, Index, int32_t>();
    };
    const auto with_indices = [&]<class Real>() {
        if (is_wide(indices.dtype()))
            with_pointers.template operator()<Real, int64_t>();
        else
            with_pointers.template operator()<Real, int32_t>();
    };
    if (scalar_of(data.dtype()) == Scalar::f32)
        with_indices.template operator()<float>();
    else
        with_indices.template operator()<double>();
}

}  // namespace

void bind_pegasos(nb::module_& m) {
    m.def("pegasos_dense_steps", &dense_steps, nb::arg("table").noconvert(), nb::arg("order").noconvert(),
          nb::arg("codes").noconvert(), nb::arg("weights").noconvert(), nb::arg("factors").noconvert(),
          nb::arg("hinge").noconvert().none(), nb::arg("wrong").noconvert().none(), nb::arg("v").noconvert(),
          nb::arg("lag").noconvert().none(), nb::arg("scale").noconvert(), nb::arg("sq_norm").noconvert(),
          nb::arg("mass").noconvert(), nb::arg("charged").noconvert(), nb::arg("totals").noconvert(), nb::arg("alpha"),
          nb::arg("constant"), nb::arg("batch_size"), nb::arg("projects"));
    m.def("pegasos_sparse_steps", &sparse_steps, nb::arg("data").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("indptr").noconvert(), nb::arg("order").noconvert(), nb::arg("codes").noconvert(),
          nb::arg("weights").noconvert(), nb::arg("factors").noconvert(), nb::arg("hinge").noconvert().none(),
          nb::arg("wrong").noconvert().none(), nb::arg("v").noconvert(), nb::arg("lag").noconvert().none(),
          nb::arg("scale").noconvert(), nb::arg("sq_norm").noconvert(), nb::arg("mass").noconvert(),
          nb::arg("charged").noconvert(), nb::arg("totals").noconvert(), nb::arg("alpha"), nb::arg("constant"),
          nb::arg("batch_size"), nb::arg("projects"));
}

}  // namespace mercer
