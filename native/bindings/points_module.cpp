// Bindings of functions of a point: optimality conditions, KKT violation and working-set selection.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "dual/conditions.hpp"
#include "dual/working_set.hpp"

namespace mercer {
namespace {

Variables make_variables(const ConstDoubles& beta, const ConstDoubles& gradient, const ConstDoubles& lower,
                         const ConstDoubles& upper, const std::optional<ConstIndices>& groups, int64_t n_groups,
                         const std::optional<ConstIndices>& active) {
    const auto n = static_cast<int64_t>(beta.shape(0));
    require(static_cast<int64_t>(gradient.shape(0)) == n && static_cast<int64_t>(lower.shape(0)) == n &&
                static_cast<int64_t>(upper.shape(0)) == n && (!groups || static_cast<int64_t>(groups->shape(0)) == n),
            "beta, gradient, lower, upper and groups must have the same length");
    if (groups) check_indices(groups->data(), n, n_groups);
    const int64_t n_active = active ? static_cast<int64_t>(active->shape(0)) : n;
    if (active) check_indices(active->data(), n_active, n);
    return {n,
            beta.data(),
            gradient.data(),
            lower.data(),
            upper.data(),
            groups ? groups->data() : nullptr,
            n_groups,
            active ? active->data() : nullptr,
            n_active};
}

void check_groups(const std::optional<ConstIndices>& groups, int64_t n, int64_t n_groups) {
    require(n_groups >= 0 && (groups || n_groups <= 1), "groups must be given if there are two groups or more");
    if (groups) check_indices(groups->data(), n, n_groups);
}

// A survey together with its arrays, which it keeps alive and reads after `measure`.
class SurveyOfArrays {
  public:
    void measure(ConstDoubles beta, ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper,
                 std::optional<ConstIndices> groups, int64_t n_groups, std::optional<ConstIndices> active) {
        const Variables variables = make_variables(beta, gradient, lower, upper, groups, n_groups, active);
        bounds_ = {beta, lower, upper};
        indices_ = {groups, active};
        survey_.measure(variables);
    }

    double violation() const { return survey_.violation(); }
    int64_t n_free() const { return survey_.n_free(); }
    int64_t n_remaining() const { return survey_.n_remaining(); }
    auto remaining() const { return owned(survey_.remaining()); }
    auto dropped() const { return owned(survey_.dropped()); }

    // Returns the chosen variables without the partners that leave_out_partners removes (dual/working_set.hpp).
    auto without_partners(ConstIndices chosen, ConstIndices rows, int64_t n_rows) {
        const auto count = static_cast<int64_t>(chosen.shape(0));
        check_indices(chosen.data(), count, survey_.size());
        require(static_cast<int64_t>(rows.shape(0)) == survey_.size(), "rows must have an element per variable");
        check_indices(rows.data(), survey_.size(), n_rows);
        std::vector<int64_t> left(chosen.data(), chosen.data() + count);
        leave_out_partners(left, survey_.variables(), rows.data(), n_rows);
        return owned(std::move(left));
    }

    auto select(ConstFlags seen, ConstIndices previous, int64_t limit) {
        const auto n_previous = static_cast<int64_t>(previous.shape(0));
        check_indices(previous.data(), n_previous, survey_.size());
        require(static_cast<int64_t>(seen.shape(0)) == survey_.size(), "seen must have a flag per variable");
        require(limit >= 0, "limit must not be negative");
        return owned(survey_.select(seen.data(), previous.data(), n_previous, limit));
    }

  private:
    Survey survey_;
    std::array<ConstDoubles, 3> bounds_;
    std::array<std::optional<ConstIndices>, 2> indices_;
};

std::tuple<nb::ndarray<nb::numpy, double, nb::ndim<1>>,
           std::tuple<double, double, double, double, double, int64_t, int64_t>>
conditions(ConstDoubles beta, ConstDoubles values, ConstDoubles linear, ConstDoubles lower, ConstDoubles upper,
           ConstDoubles start, std::optional<ConstDoubles> ridge, std::optional<ConstIndices> groups,
           int64_t n_groups) {
    const auto n = static_cast<int64_t>(beta.shape(0));
    auto fits = [n](const ConstDoubles& array) { return static_cast<int64_t>(array.shape(0)) == n; };
    require(fits(values) && fits(linear) && fits(lower) && fits(upper) && fits(start) && (!ridge || fits(*ridge)) &&
                (!groups || static_cast<int64_t>(groups->shape(0)) == n),
            "beta, values, linear, lower, upper, start, ridge and groups must have the same length");
    check_groups(groups, n, n_groups);
    auto multipliers = owned(std::vector<double>(static_cast<std::size_t>(n_groups)));
    const Conditions c =
        find_conditions({n, beta.data(), values.data(), linear.data(), lower.data(), upper.data(), start.data(),
                         ridge ? ridge->data() : nullptr, groups ? groups->data() : nullptr, n_groups},
                        multipliers.data());
    return {multipliers, {c.quadratic, c.linear, c.mass, c.infeasibility, c.excess, c.n_free, c.n_bounded}};
}

auto screened_of(ConstDoubles beta, ConstDoubles lower, ConstDoubles upper, ConstDoubles gradient, ConstDoubles doubt,
                 double margin, std::optional<ConstIndices> groups, int64_t n_groups) {
    const auto n = static_cast<int64_t>(beta.shape(0));
    auto fits = [n](const auto& array) { return static_cast<int64_t>(array.shape(0)) == n; };
    require(fits(lower) && fits(upper) && fits(gradient) && fits(doubt) && (!groups || fits(*groups)),
            "beta, lower, upper, gradient, doubt and groups must have the same length");
    check_groups(groups, n, n_groups);
    return owned_flags(static_cast<std::size_t>(n), [&](bool* flags) {
        find_screened({n, beta.data(), lower.data(), upper.data(), gradient.data(), doubt.data(), margin,
                       groups ? groups->data() : nullptr, n_groups},
                      flags);
    });
}

double twofold_sum(ConstDoubles values) { return find_sum(static_cast<int64_t>(values.shape(0)), values.data()); }

auto vertex_of(ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper, double total) {
    const std::size_t n = gradient.shape(0);
    require(lower.shape(0) == n && upper.shape(0) == n, "gradient, lower and upper must have the same length");
    std::vector<double> point(n);
    find_vertex(static_cast<int64_t>(n), gradient.data(), lower.data(), upper.data(), total, point.data());
    return owned(std::move(point));
}

void balance_each(Doubles beta, ConstDoubles lower, ConstDoubles upper, ConstIndices edges, ConstDoubles totals) {
    const auto n = static_cast<int64_t>(beta.shape(0)), n_sums = static_cast<int64_t>(totals.shape(0));
    require(static_cast<int64_t>(lower.shape(0)) == n && static_cast<int64_t>(upper.shape(0)) == n,
            "beta, lower and upper must have the same length");
    const int64_t* edge = edges.data();
    require(static_cast<int64_t>(edges.shape(0)) == n_sums + 1 && edge[0] == 0 && edge[n_sums] == n &&
                std::is_sorted(edge, edge + n_sums + 1),
            "edges must rise from 0 to the number of variables, with a total between each two");
    for (int64_t k = 0; k < n_sums; ++k)
        balance(edge[k + 1] - edge[k], beta.data() + edge[k], totals.data()[k], lower.data() + edge[k],
                upper.data() + edge[k]);
}

}  // namespace

void bind_points(nb::module_& m) {
    m.def("conditions", &conditions, nb::arg("beta").noconvert(), nb::arg("values").noconvert(), nb::kw_only(),
          nb::arg("linear").noconvert(), nb::arg("lower").noconvert(), nb::arg("upper").noconvert(),
          nb::arg("start").noconvert(), nb::arg("ridge").noconvert().none(), nb::arg("groups").noconvert().none(),
          nb::arg("n_groups"));
    m.def("find_screened", &screened_of, nb::arg("beta").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("gradient").noconvert(), nb::arg("doubt").noconvert(),
          nb::arg("margin"), nb::arg("groups").noconvert().none(), nb::arg("n_groups"));
    m.def("twofold_sum", &twofold_sum, nb::arg("values").noconvert());
    m.def("find_vertex", &vertex_of, nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("total"));
    m.def("balance", &balance_each, nb::arg("beta").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("edges").noconvert(), nb::arg("totals").noconvert());
    nb::class_<SurveyOfArrays>(m, "Survey")
        .def(nb::init<>())
        .def("measure", &SurveyOfArrays::measure, nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(),
             nb::arg("lower").noconvert(), nb::arg("upper").noconvert(), nb::arg("groups").noconvert().none(),
             nb::arg("n_groups"), nb::arg("active").noconvert().none())
        .def_prop_ro("violation", &SurveyOfArrays::violation)
        .def_prop_ro("n_free", &SurveyOfArrays::n_free)
        .def("n_remaining", &SurveyOfArrays::n_remaining)
        .def("remaining", &SurveyOfArrays::remaining)
        .def("dropped", &SurveyOfArrays::dropped)
        .def("without_partners", &SurveyOfArrays::without_partners, nb::arg("chosen").noconvert(),
             nb::arg("rows").noconvert(), nb::arg("n_rows"))
        .def("select", &SurveyOfArrays::select, nb::arg("seen").noconvert(), nb::arg("previous").noconvert(),
             nb::arg("limit"));
}

}  // namespace mercer
