// Binding of the problem on a working set, given by arrays of all variables.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/stop.hpp"
#include "dual/block.hpp"
#include "dual/working_point.hpp"

namespace mercer {
namespace {

// The problem on a working set, from arrays of all variables.
class BlockOfArrays {
  public:
    template <class Real>
    BlockOfArrays(const std::string& isa, MatrixOf<const Real> matrix, ConstIndices chosen, ConstDoubles beta,
                  ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper, std::optional<ConstIndices> groups,
                  int64_t n_groups, const BlockLimits& limits, int n_threads)
        : matrix_(nb::cast(matrix)), stop_{nb::none()} {
        const auto n = static_cast<int64_t>(beta.shape(0)), size = static_cast<int64_t>(chosen.shape(0));
        require(static_cast<int64_t>(gradient.shape(0)) == n && static_cast<int64_t>(lower.shape(0)) == n &&
                    static_cast<int64_t>(upper.shape(0)) == n &&
                    (!groups || static_cast<int64_t>(groups->shape(0)) == n),
                "beta, gradient, lower, upper and groups must have the same length");
        require(groups.has_value() == (n_groups > 0), "groups are given where there are equality constraints");
        require(n_groups <= n, "there must not be more groups than variables");
        check_indices(chosen.data(), size, n);
        check_padded(matrix, size);
        const Variables all{n,
                            beta.data(),
                            gradient.data(),
                            lower.data(),
                            upper.data(),
                            groups ? groups->data() : nullptr,
                            n_groups,
                            nullptr,
                            n};
        point_.emplace(all, chosen.data(), size);
        require(point_->is_by_group(), "variables must be chosen by group");
        BlockProblem<Real> problem = point_->problem<Real>(matrix.data(), matrix.stride(0));
        problem.n_threads = n_threads, problem.stop = Stop::ask, problem.stop_context = &stop_;
        block_ = std::make_unique<Block<Real>>(implementation(isa), problem, limits);
    }
    BlockOfArrays(const BlockOfArrays&) = delete;

    const AnyBlock& block() const { return *block_; }

    // Continues for about 10 ms, or until Newton steps in single precision end. If `most` is not negative, it makes at
    // most `most` steps.
    void work(int64_t most, nb::object stop) {
        const Stop::Call call(stop_, std::move(stop));
        {
            const ReleasedGil released;
            const int64_t before = block_->n_iter();
            const double enough = block_->work() + kBriefWork;
            do {
                block_->step(most < 0 ? std::numeric_limits<int64_t>::max() : most - (block_->n_iter() - before));
            } while (!block_->is_finished() && !block_->is_stopped() && block_->work() < enough);
        }
        stop_.rethrow();
    }

    void go_to(ConstDoubles beta, ConstDoubles gradient) {
        const std::size_t count = point_->beta.size();
        require(beta.shape(0) == count && gradient.shape(0) == count,
                "beta and gradient must have an element for each chosen variable");
        std::copy_n(beta.data(), count, point_->beta.data());
        std::copy_n(gradient.data(), count, point_->gradient.data());
        block_->go_on_from_here();
    }

    void store_point(Doubles beta) const { store(point_->beta, beta); }
    void store_gradient(Doubles gradient) const { store(point_->gradient, gradient); }
    auto beta() const { return owned(point_->beta); }
    auto gradient() const { return owned(point_->gradient); }

    // Returns the variables that moved: positions in the working set, indices, changes, and the sum of squared changes.
    auto moves() const {
        WorkingPoint::Moves moves = point_->moves();
        double squares = 0.0;
        for (const double change : moves.changes) squares += change * change;
        return std::tuple{owned(std::move(moves.places)), owned(std::move(moves.variables)),
                          owned(std::move(moves.changes)), squares};
    }

    // Returns the increase of the dual objective. `gradient` is the gradient of all variables at the new point.
    double rise(ConstDoubles gradient) const {
        check_chosen(gradient);
        return point_->rise([&](int64_t u) { return gradient.data()[u]; });
    }

  private:
    template <class Array>
    void check_chosen(const Array& of_all) const {
        check_indices(point_->chosen().data(), point_->size(), static_cast<int64_t>(of_all.shape(0)));
    }

    void store(const std::vector<double>& from, const Doubles& to) const {
        check_chosen(to);
        point_->store(from, to.data());
    }

    nb::object matrix_;  // keeps the matrix alive
    Stop stop_;
    std::optional<WorkingPoint> point_;
    std::unique_ptr<AnyBlock> block_;
};

template <class Real>
std::unique_ptr<BlockOfArrays> begin_block(const std::string& isa, MatrixOf<const Real> matrix, ConstIndices chosen,
                                           ConstDoubles beta, ConstDoubles gradient, ConstDoubles lower,
                                           ConstDoubles upper, std::optional<ConstIndices> groups, int64_t n_groups,
                                           const BlockLimits& limits, int n_threads) {
    return std::make_unique<BlockOfArrays>(isa, matrix, chosen, beta, gradient, lower, upper, groups, n_groups, limits,
                                           n_threads);
}

template <class Real>
void bind_begin(nb::module_& m) {
    m.def("begin_block", &begin_block<Real>, nb::arg("isa"), nb::arg("matrix").noconvert(),
          nb::arg("chosen").noconvert(), nb::kw_only(), nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(),
          nb::arg("lower").noconvert(), nb::arg("upper").noconvert(), nb::arg("groups").noconvert().none(),
          nb::arg("n_groups"), nb::arg("limits"), nb::arg("n_threads") = 1);
}

}  // namespace

void bind_block(nb::module_& m) {
    m.attr("BLOCK_LIMIT") = static_cast<int>(BlockEnd::limit);
    m.attr("INNER_SHARE") = kInnerShare;
    m.attr("FEW_FREE") = kFewFree;
    m.attr("MANY_FREE") = kManyFree;
    m.attr("MANY_FREE_PRECISE") = kManyFreePrecise;
    m.attr("EXACT_FREE") = kExactFree;
    nb::class_<BlockLimits>(m, "BlockLimits")
        .def(
            "__init__",
            [](BlockLimits* self, double tol, double newton_tol, double violation, double largest, bool convex,
               bool smo_slow, int64_t most_free, int64_t most_close, double close, int64_t most_if_slow,
               int64_t exact_free, int64_t brief_free, double diverged_above, int n_rounds) {
                require(n_rounds >= 1, "n_rounds must be positive");
                new (self)
                    BlockLimits{tol,        newton_tol, violation,    largest,    convex,     smo_slow,       most_free,
                                most_close, close,      most_if_slow, exact_free, brief_free, diverged_above, n_rounds};
            },
            nb::kw_only(), nb::arg("tol"), nb::arg("newton_tol"), nb::arg("violation"), nb::arg("largest"),
            nb::arg("convex"), nb::arg("smo_slow"), nb::arg("most_free"), nb::arg("most_close"), nb::arg("close"),
            nb::arg("most_if_slow"), nb::arg("exact_free"), nb::arg("brief_free"), nb::arg("diverged_above"),
            nb::arg("n_rounds"));
    nb::class_<BlockOfArrays>(m, "Block")
        .def("work", &BlockOfArrays::work, nb::arg("most"), nb::arg("stop").none() = nb::none())
        .def("go_to", &BlockOfArrays::go_to, nb::arg("beta").noconvert(), nb::arg("gradient").noconvert())
        .def("store_point", &BlockOfArrays::store_point, nb::arg("beta").noconvert())
        .def("store_gradient", &BlockOfArrays::store_gradient, nb::arg("gradient").noconvert())
        .def("moves", &BlockOfArrays::moves)
        .def("rise", &BlockOfArrays::rise, nb::arg("gradient").noconvert())
        .def_prop_ro("beta", &BlockOfArrays::beta, nb::rv_policy::move)
        .def_prop_ro("gradient", &BlockOfArrays::gradient, nb::rv_policy::move)
        .def_prop_ro("is_finished", [](const BlockOfArrays& self) { return self.block().is_finished(); })
        .def_prop_ro("has_diverged", [](const BlockOfArrays& self) { return self.block().has_diverged(); })
        .def_prop_ro("smo_slow", [](const BlockOfArrays& self) { return self.block().smo_slow(); })
        .def_prop_ro("n_iter", [](const BlockOfArrays& self) { return self.block().n_iter(); })
        .def_prop_ro("n_newton", [](const BlockOfArrays& self) { return self.block().n_newton(); })
        .def_prop_ro("n_free", [](const BlockOfArrays& self) { return self.block().n_free(); })
        .def_prop_ro("newton_free", [](const BlockOfArrays& self) { return self.block().newton_free(); })
        .def_prop_ro("violation", [](const BlockOfArrays& self) { return self.block().violation(); });
    bind_begin<double>(m);
    bind_begin<float>(m);
}

}  // namespace mercer
