// Binding of dual coordinate descent for linear machines.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <utility>

#include "bindings/binding.hpp"
#include "bindings/linear_table.hpp"
#include "bindings/stop.hpp"
#include "rows/dual_descent.hpp"
#include "rows/joint_descent.hpp"

namespace mercer {
namespace {

// Dual coordinate descent on a block of rows. It reads the arrays in place, and changes the coefficients and weights.
class DescentOfArrays {
  public:
    DescentOfArrays(const LinearTable& table, nb::object owner)
        : table_(table), owner_(std::move(owner)), stop_{nb::none()} {}
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

  protected:
    void check_sizes(std::size_t n_given, std::size_t n_weights) const {
        require(static_cast<int64_t>(n_given) == table_.n_rows,
                "targets, charges and beta must have an element for each row");
        require(static_cast<int64_t>(n_weights) == table_.width(),
                "w must have an element for each column, and one for the constant");
    }

    // Calls make(), which returns a descent, or null for indices out of range.
    template <class Make>
    void begin(Make make) {
        {
            const ReleasedGil released;
            descent_ = make();
        }
        check_range(descent_ != nullptr);
    }

    LinearTable table_;
    nb::object owner_;  // keeps the arrays of the table alive
    Stop stop_;
    std::unique_ptr<DualDescent> descent_;
};

class TwoClassDescent : public DescentOfArrays {
  public:
    TwoClassDescent(const LinearTable& table, nb::object owner, int loss, double epsilon, ConstDoubles targets,
                    ConstDoubles charges, Doubles beta, Doubles w, uint64_t seed)
        : DescentOfArrays(table, std::move(owner)), targets_(targets), charges_(charges), beta_(beta), w_(w) {
        for (const std::size_t size : {targets.shape(0), charges.shape(0), beta.shape(0)})
            check_sizes(size, w.shape(0));
        require(loss >= 0 && loss <= static_cast<int>(LinearLoss::squared_epsilon_insensitive), "unknown loss");
        const DescentProblem problem{static_cast<LinearLoss>(loss),
                                     epsilon,
                                     targets.data(),
                                     charges.data(),
                                     beta.data(),
                                     w.data(),
                                     seed,
                                     Stop::ask,
                                     &stop_};
        begin([&] { return make_dual_descent(table_, problem); });
    }

  private:
    ConstDoubles targets_, charges_;
    Doubles beta_, w_;
};

class JointDescentOfArrays : public DescentOfArrays {
  public:
    JointDescentOfArrays(const LinearTable& table, nb::object owner, ConstIndices codes, ConstDoubles charges,
                         DoubleRows beta, DoubleRows w, uint64_t seed)
        : DescentOfArrays(table, std::move(owner)), codes_(codes), charges_(charges), beta_(beta), w_(w) {
        for (const std::size_t size : {codes.shape(0), charges.shape(0), beta.shape(0)}) check_sizes(size, w.shape(0));
        const auto n_classes = static_cast<int64_t>(w.shape(1));
        require(n_classes >= 2 && beta.shape(1) == w.shape(1), "beta and w must have a column for each class");
        check_indices(codes.data(), table_.n_rows, n_classes);
        const JointDescentProblem problem{n_classes, codes.data(), charges.data(), beta.data(),
                                          w.data(),  seed,         Stop::ask,      &stop_};
        begin([&] { return make_joint_descent(table_, problem); });
    }

  private:
    ConstIndices codes_;
    ConstDoubles charges_;
    DoubleRows beta_, w_;
};

}  // namespace

void bind_dual_descent(nb::module_& m) {
    nb::class_<DescentOfArrays>(m, "Descent")
        .def("run", &DescentOfArrays::run, nb::arg("most"), nb::arg("target"), nb::arg("stop").none() = nb::none())
        .def_prop_ro("largest_square", &DescentOfArrays::largest_square);
    nb::class_<TwoClassDescent, DescentOfArrays>(m, "DualDescent")
        .def(
            "__init__",
            [](TwoClassDescent* self, nb::handle_t<LinearTableOfArrays> table, int loss, double epsilon,
               ConstDoubles targets, ConstDoubles charges, Doubles beta, Doubles w, uint64_t seed) {
                new (self) TwoClassDescent(nb::cast<const LinearTableOfArrays&>(table).view, nb::borrow(table), loss,
                                           epsilon, targets, charges, beta, w, seed);
            },
            nb::arg("table"), nb::kw_only(), nb::arg("loss"), nb::arg("epsilon"), nb::arg("targets").noconvert(),
            nb::arg("charges").noconvert(), nb::arg("beta").noconvert(), nb::arg("w").noconvert(), nb::arg("seed"));
    nb::class_<JointDescentOfArrays, DescentOfArrays>(m, "JointDescent")
        .def(
            "__init__",
            [](JointDescentOfArrays* self, nb::handle_t<LinearTableOfArrays> table, ConstIndices codes,
               ConstDoubles charges, DoubleRows beta, DoubleRows w, uint64_t seed) {
                new (self) JointDescentOfArrays(nb::cast<const LinearTableOfArrays&>(table).view, nb::borrow(table),
                                                codes, charges, beta, w, seed);
            },
            nb::arg("table"), nb::kw_only(), nb::arg("codes").noconvert(), nb::arg("charges").noconvert(),
            nb::arg("beta").noconvert(), nb::arg("w").noconvert(), nb::arg("seed"));
}

}  // namespace mercer
