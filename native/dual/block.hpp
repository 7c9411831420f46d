// The problem on a working set: SMO, and Newton steps if SMO is slow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "gram/dispatch.hpp"

namespace mercer {

constexpr double kInnerShare = 0.1;  // share of a working set's initial violation to which it is solved
// Largest numbers of free variables for Newton steps. kFewFree: in all cases. kManyFree: if no variable outside the
// working set violates, or if SMO has already cost several times as much. kManyFreePrecise: in double precision, where
// each variable that reaches or leaves a bound costs free^2. kExactFree: for continuing to the limit of double
// precision.
constexpr int64_t kFewFree = 2048, kManyFree = 6144, kManyFreePrecise = 1500, kExactFree = 256;
constexpr double kBriefWork = 2e7;  // steps times variables in one call, about 10 ms

// The state of the working set before the first step, and the limits of the steps.
struct BlockLimits {
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    double tol, newton_tol;  // largest violation at the end of SMO, and at the end of Newton steps
    double violation;        // violation before the first step
    double largest;          // largest |k(x, x)|
    bool convex, smo_slow;   // smo_slow: whether SMO has given way to Newton steps before
    int64_t most_free;       // largest number of free variables for Newton steps
    int64_t most_close;      // the same, once the violation is at most `close`
    double close = kInfinity;
    int64_t most_if_slow = -1;  // the same, once SMO has cost several times as much as Newton steps
    // In double precision, Newton steps continue to the limit of precision with at most this number of free variables;
    // -1: never.
    int64_t exact_free = -1;
    // -1, or a number of free variables if few changes are expected. If it is not -1, the cost of SMO is limited to
    // that of Newton steps, in double precision too. If in addition SMO has given way before and at most brief_free
    // variables are free, SMO makes only one step for ten variables.
    int64_t brief_free = -1;
    double diverged_above = kInfinity;  // SMO has diverged if its first steps end above this violation
    int n_rounds = 10;                  // rounds of SMO and Newton steps
};

// Returns the limits of a round on a working set of a convex problem. If the set has all variables that violate, it is
// solved to `tol`.
template <class Real>
BlockLimits limits_of_round(double tol, double violation, double largest, bool holds_all, bool smo_slow) {
    constexpr double kShareOfAll = 0.01;  // a smaller share, which saves a round
    constexpr bool single = sizeof(Real) == sizeof(float);
    BlockLimits limits{};
    limits.tol = std::max(tol, (holds_all ? kShareOfAll : kInnerShare) * violation);
    limits.newton_tol = holds_all ? tol : limits.tol;  // the last Newton steps are the cheapest
    limits.violation = violation, limits.largest = largest;
    limits.convex = true, limits.smo_slow = smo_slow;
    limits.most_free = limits.most_close = !single ? kManyFreePrecise : holds_all ? kManyFree : kFewFree;
    limits.exact_free = holds_all ? kExactFree : -1;
    return limits;
}

// A solver of a block that continues where it was interrupted, so that the caller can stop it between calls.
class AnyBlock {
  public:
    explicit AnyBlock(const BlockLimits& limits) : limits_(limits), violation_(limits.violation) {}
    virtual ~AnyBlock() = default;

    // Makes at most `most` steps; 0 finishes the block. SMO returns after about 10 ms. Newton steps in single precision
    // return at their end, or when `stop` returns true.
    virtual void step(int64_t most) = 0;

    // Must be called after the caller has changed the point and its gradient. SMO comes next and is not tested for
    // divergence again. Counts of rounds and moves since the start are kept.
    virtual void go_on_from_here() = 0;

    bool is_finished() const { return phase_ == Phase::finished; }
    bool has_diverged() const { return has_diverged_; }            // whether SMO ended because it diverged
    bool is_stopped() const { return is_stopped_; }                // whether `stop` returned true
    bool is_at_newton() const { return phase_ == Phase::newton; }  // whether Newton steps come next
    bool smo_slow() const { return limits_.smo_slow; }
    int64_t n_iter() const { return n_iter_; }
    int64_t n_newton() const { return n_newton_; }  // number of Newton steps
    int64_t n_free() const { return n_free_; }
    int64_t newton_free() const { return newton_free_; }  // most free variables at the start of Newton steps
    double violation() const { return violation_; }
    double work() const { return work_; }  // steps times variables, and free^3 / 6 for a call of Newton steps

  protected:
    enum class Phase { pairs, newton, finished };

    BlockLimits limits_;
    Phase phase_ = Phase::pairs;
    bool has_diverged_ = false, is_stopped_ = false;
    int64_t n_iter_ = 0, n_newton_ = 0, n_free_ = 0, newton_free_ = 0;
    double violation_, work_ = 0.0;
};

template <class Real>
class Block final : public AnyBlock {
  public:
    Block(const Implementation& native, const BlockProblem<Real>& problem, const BlockLimits& limits);

    void step(int64_t most) override;
    void go_on_from_here() override;

  private:
    static constexpr bool kSingle = sizeof(Real) == sizeof(float);

    void pair_steps(int64_t most);
    void newton_steps(int64_t most);
    void end_pairs(BlockEnd end);
    void end_round(BlockEnd end);
    BlockEnd run(bool newton, double tol, int64_t steps);
    void fetch_all() const;
    int64_t count_free() const;
    int64_t most_free() const;
    int64_t most_ever() const;
    int64_t smo_budget() const;
    double noise() const;
    double rounding() const;

    const Implementation& native_;
    const BlockProblem<Real> p_;
    std::vector<double> before_;  // the point before the first step
    bool exact_ = false;
    int round_ = 0, newton_calls_ = 0;
    int64_t n_pairs_ = 0;  // SMO steps in this round
    double newton_tol_ = 0.0;
};

}  // namespace mercer
