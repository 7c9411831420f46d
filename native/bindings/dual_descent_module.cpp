// Binding of dual coordinate descent for linear machines.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <cmath>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "bindings/binding.hpp"
#include "bindings/row_arrays.hpp"
#include "bindings/stop.hpp"
#include "linear/dual_descent.hpp"

namespace mercer {
namespace {

// Dual coordinate descent on a block of rows. It reads the arrays in place, and changes `beta` and `w`.
class DescentOfArrays {
  public:
    DescentOfArrays(nb::ndarray<nb::ro, nb::device::cpu> values, std::optional<AnyVector> columns,
                    std::optional<AnyVector> ends, int64_t n_columns, int loss, double epsilon, double constant,
                    ConstDoubles targets, ConstDoubles charges, Doubles beta, Doubles w, uint64_t seed)
        : arrays_(values, columns, ends, n_columns),
          targets_(targets),
          charges_(charges),
          beta_(beta),
          w_(w),
          stop_{nb::none()} {
        const auto n = static_cast<std::size_t>(arrays_.n);
        require(targets.shape(0) == n && charges.shape(0) == n && beta.shape(0) == n,
                "targets, charges and beta must have an element for each row");
        require(static_cast<int64_t>(w.shape(0)) == n_columns + (constant == 0.0 ? 0 : 1),
                "w must have an element for each column, and one for the constant");
        require(loss >= 0 && loss <= static_cast<int>(LinearLoss::squared_epsilon_insensitive), "unknown loss");
        const DescentProblem problem{static_cast<LinearLoss>(loss),
                                     epsilon,
                                     constant,
                                     targets.data(),
                                     charges.data(),
                                     beta.data(),
                                     w.data(),
                                     seed,
                                     Stop::ask,
                                     &stop_};
        arrays_.rows([&](const auto& rows) {
            const ReleasedGil released;
            descent_ = make_dual_descent(rows, problem);
        });
    }
    DescentOfArrays(const DescentOfArrays&) = delete;

    std::tuple<int64_t, int64_t, double, int64_t, bool> run(int64_t most, double target, nb::object stop) {
        const Stop::Call call(stop_, std::move(stop));
        DescentReport report{};
        {
            const ReleasedGil released;
            report = descent_->run(most, target);
        }
        stop_.rethrow();
        return {report.n_epochs, report.n_steps, report.gap, report.n_active, report.is_finished};
    }

    double largest_square() const { return descent_->largest_square(); }

  private:
    RowArrays arrays_;  // these members keep the arrays alive
    ConstDoubles targets_, charges_;
    Doubles beta_, w_;
    Stop stop_;
    std::unique_ptr<DualDescent> descent_;
};

}  // namespace

void bind_dual_descent(nb::module_& m) {
    nb::class_<DescentOfArrays>(m, "DualDescent")
        .def(nb::init<nb::ndarray<nb::ro, nb::device::cpu>, std::optional<AnyVector>, std::optional<AnyVector>, int64_t,
                      int, double, double, ConstDoubles, ConstDoubles, Doubles, Doubles, uint64_t>(),
             nb::arg("values").noconvert(), nb::arg("columns").noconvert().none(), nb::arg("ends").noconvert().none(),
             nb::arg("n_columns"), nb::kw_only(), nb::arg("loss"), nb::arg("epsilon"), nb::arg("constant"),
             nb::arg("targets").noconvert(), nb::arg("charges").noconvert(), nb::arg("beta").noconvert(),
             nb::arg("w").noconvert(), nb::arg("seed"))
        .def("run", &DescentOfArrays::run, nb::arg("most"), nb::arg("target"), nb::arg("stop").none() = nb::none())
        .def_prop_ro("largest_square", &DescentOfArrays::largest_square);
}

}  // namespace mercer
