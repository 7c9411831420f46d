#include "dual/single_precision_qp.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "dual/block.hpp"
#include "dual/conditions.hpp"

namespace mercer {
namespace {

// If one of the first three limits is exceeded, this solver stops, and another solver begins at the starting point.

// Largest work of a round, in steps times variables; it takes about 50 ms. In the first round, SMO and Newton steps
// count. In later rounds only SMO steps count, because these rounds cannot do without the factor of a Newton step.
constexpr double kMostWork = 1e8;
// Largest number of variables that reach or leave a bound in the Newton steps of a round.
constexpr int64_t kMostChanges = 200;
// Largest violation after the first steps from 0, as a multiple of the violation at 0;
// src/mercer/solvers/dual/block.py has the same value.
constexpr double kDiverged = 3.0;
constexpr int kRounds = 3;    // largest number of rounds; each begins with a float64 gradient
constexpr double kEnd = 0.5;  // steps end at this share of the tolerance; the rest is left for rounding errors

class Single {
  public:
    Single(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits, double* workspace)
        : native_(native),
          p_(problem),
          limits_(limits),
          matrix_(reinterpret_cast<float*>(workspace)),
          start_(p_.beta, p_.beta + p_.size()),
          gradient_(p_.linear, p_.linear + p_.size()) {}

    MachineEnd run() {
        evaluate();
        std::fill_n(p_.values, p_.size(), 0.0);
        starts_at_zero_ = std::all_of(p_.beta, p_.beta + p_.size(), [](double beta) { return beta == 0.0; });
        if (!starts_at_zero_) multiply();
        for (int round = 0; round < kRounds; ++round) {
            take_steps(round);
            if (p_.grouped) balance(p_.size(), p_.beta, find_sum(p_.size(), p_.start), p_.lower, p_.upper);
            multiply();
            if (result_.end == BlockEnd::limit || violation() <= limits_.tol) break;
        }
        return result_;
    }

  private:
    void evaluate() {
        const int64_t size = p_.size(), stride = padded(size);
        TileRequest square = p_.kernel;
        square.symmetric = true;
        native_.block_single(square, matrix_, stride);
        for (int64_t u = 0; u < size; ++u) std::fill(matrix_ + u * stride + size, matrix_ + (u + 1) * stride, 0.0F);
        result_.n_values += size * size;
    }

    // Makes steps until the block is solved or a limit is exceeded. In rounds after the first, few changes are
    // expected.
    void take_steps(int round) {
        const int64_t size = p_.size(), edges[2] = {0, size};
        const BlockProblem<float> block{size,
                                        matrix_,
                                        padded(size),
                                        p_.beta,
                                        gradient_.data(),
                                        p_.lower,
                                        p_.upper,
                                        edges,
                                        p_.grouped ? 1 : 0,
                                        p_.kernel.n_threads,
                                        limits_.stop,
                                        limits_.stop_context};
        BlockLimits ends = limits_of_round<float>(kEnd * limits_.tol, 0.0, p_.largest, true, smo_slow_);
        if (round > 0) ends.brief_free = size;
        if (starts_at_zero_ && round == 0) ends.diverged_above = kDiverged * violation();
        Block<float> steps(native_, block, ends);
        const auto steps_left = [&] {
            return limits_.max_iter < 0 ? std::numeric_limits<int64_t>::max()
                                        : limits_.max_iter - result_.n_iter - steps.n_iter();
        };
        bool stopped = false, too_hard = false;
        while (!steps.is_finished() && !stopped && !too_hard) {
            const bool newton = steps.is_at_newton();
            steps.step(newton ? std::min(steps_left(), kMostChanges - steps.n_newton()) : steps_left());
            stopped = steps.is_stopped() || (limits_.stop != nullptr && limits_.stop(limits_.stop_context));
            const auto pairs = static_cast<double>((steps.n_iter() - steps.n_newton()) * size);
            too_hard = steps.n_newton() >= kMostChanges || (round == 0 ? steps.work() : pairs) >= kMostWork;
        }
        too_hard = steps.has_diverged() || (too_hard && !steps.is_finished());
        if (!steps.is_finished() || too_hard || stopped || steps_left() == 0) result_.end = BlockEnd::limit;
        // Another solver would take longer from this point than from the starting point.
        if (too_hard && !stopped && limits_.max_iter < 0) std::copy(start_.begin(), start_.end(), p_.beta);
        smo_slow_ = steps.smo_slow();
        result_.n_iter += steps.n_iter();
        result_.newton_free = std::max(result_.newton_free, steps.newton_free());
    }

    // Computes K beta by tiles in double precision, and the gradient. Half of the values between support vectors are
    // evaluated.
    void multiply() {
        struct Side {
            std::vector<int64_t> variables, rows;
        } support, others;
        std::vector<double> weights;
        for (int64_t u = 0; u < p_.size(); ++u) {
            Side& side = p_.beta[u] != 0.0 ? support : others;
            side.variables.push_back(u), side.rows.push_back(p_.kernel.left.rows[u]);
            if (p_.beta[u] != 0.0) weights.push_back(p_.beta[u]);
        }
        const auto n_support = static_cast<int64_t>(support.rows.size());
        for (const Side* side : {&support, &others}) {
            std::vector<double> sums(side->rows.size(), 0.0);
            TileRequest request = p_.kernel;
            request.left.rows = side->rows.data(), request.left.count = static_cast<int64_t>(side->rows.size());
            request.right.rows = support.rows.data(), request.right.count = n_support;
            request.symmetric = side == &support;
            native_.matvec(request, weights.data(), 1, sums.data());
            for (std::size_t k = 0; k < sums.size(); ++k) p_.values[side->variables[k]] = sums[k];
        }
        result_.n_values += p_.size() * n_support;
        for (std::size_t u = 0; u < gradient_.size(); ++u) gradient_[u] = p_.values[u] + p_.linear[u];
    }

    double violation() const {
        double multiplier = 0.0;
        return find_conditions({p_.size(), p_.beta, p_.values, p_.linear, p_.lower, p_.upper, p_.start, nullptr,
                                nullptr, p_.grouped ? 1 : 0},
                               &multiplier)
            .excess;
    }

    const Implementation& native_;
    const MachineProblem& p_;
    const MachineLimits& limits_;
    float* matrix_;
    std::vector<double> start_, gradient_;
    MachineEnd result_{BlockEnd::solved, 0, 0};
    bool smo_slow_ = false, starts_at_zero_ = false;
};

}  // namespace

MachineEnd machine_in_single(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits,
                             double* workspace) {
    return Single(native, problem, limits, workspace).run();
}

}  // namespace mercer
