// The problem on a working set: pair steps, and Newton steps where these drag on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/dispatch.hpp"

namespace mercer {

constexpr double kInnerShare = 0.1;  // of the violation that a working set comes with: what it is solved to
// Free variables, at most, with which Newton steps are tried: always; where nobody else violates, or late; and in
// double precision, where a change of side costs free^2; and with which they go on to the limit of double precision.
constexpr int64_t kFewFree = 2048, kManyFree = 6144, kManyFreePrecise = 1500, kExactFree = 256;
constexpr double kBriefWork = 2e7;  // steps times variables: 10 ms

// The working set as it comes, and how far to go.
struct BlockLimits {
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    double tol, newton_tol;  // of the violation, for pair steps and for Newton steps
    double violation;        // before the first step
    double largest;          // |k(x, x)|
    bool convex, drags;      // whether pair steps have given way to Newton steps before
    int64_t most_free;       // Newton steps are tried with so many free variables at most
    int64_t most_close;      // or with so many, once the violation is at most `close`
    double close = kInfinity;
    int64_t most_late = -1;   // or with so many, once pair steps have cost several times as much as these would
    int64_t exact_free = -1;  // in double precision and with so few free, Newton steps go on to its limit; -1: never
    // Not -1 where few changes are expected: pair steps in double precision, too, may cost what Newton steps would; and
    // where they have given way before and so few are free, there is one for ten variables.
    int64_t brief_free = -1;
    double astray = kInfinity;  // the violation that the first pair steps must not leave; see `is_astray`
    int n_rounds = 10;          // of pair steps and Newton steps
};

// The limits of a round on a working set of a convex problem, which is to come to this tolerance where the set holds
// everybody who matters.
template <class Real>
BlockLimits limits_of_round(double tol, double violation, double largest, bool holds_all, bool drags) {
    constexpr double kShareOfAll = 0.01;  // for that is a round less, with all that move in it
    constexpr bool single = sizeof(Real) == sizeof(float);
    BlockLimits limits{};
    limits.tol = std::max(tol, (holds_all ? kShareOfAll : kInnerShare) * violation);
    limits.newton_tol = holds_all ? tol : limits.tol;  // the last ones cost least
    limits.violation = violation, limits.largest = largest;
    limits.convex = true, limits.drags = drags;
    limits.most_free = limits.most_close = !single ? kManyFreePrecise : holds_all ? kManyFree : kFewFree;
    limits.exact_free = holds_all ? kExactFree : -1;
    return limits;
}

// Goes on from wherever it is called, so that others can be asked in between whether to stop.
class AnyBlock {
  public:
    explicit AnyBlock(const BlockLimits& limits) : limits_(limits), violation_(limits.violation) {}
    virtual ~AnyBlock() = default;

    // One native call, of `most` steps at most; where these are 0 it is finished. Pair steps come back after 10 ms or
    // so, Newton steps in single precision when they are at their end or the problem's `stop` says so.
    virtual void step(int64_t most) = 0;

    // The point and its gradient have been changed from outside: pair steps come next, and cannot go astray again.
    // Rounds are counted on, and what has moved since the beginning.
    virtual void go_on_from_here() = 0;

    bool is_finished() const { return phase_ == Phase::finished; }
    bool is_astray() const { return is_astray_; }                  // whether that is why
    bool is_stopped() const { return is_stopped_; }                // by whom the problem asks
    bool is_at_newton() const { return phase_ == Phase::newton; }  // whether Newton steps come next
    bool drags() const { return limits_.drags; }
    int64_t n_iter() const { return n_iter_; }
    int64_t n_newton() const { return n_newton_; }  // of these steps
    int64_t n_free() const { return n_free_; }
    int64_t newton_free() const { return newton_free_; }  // the most that Newton steps began with
    double violation() const { return violation_; }
    double work() const { return work_; }  // steps times variables, and free^3 / 6 for a call of Newton steps

  protected:
    enum class Phase { pairs, newton, finished };

    BlockLimits limits_;
    Phase phase_ = Phase::pairs;
    bool is_astray_ = false, is_stopped_ = false;
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
    int64_t patience() const;
    double noise() const;
    double rounding() const;

    const Implementation& native_;
    const BlockProblem<Real> p_;
    std::vector<double> before_;  // the point at first
    bool exact_ = false;
    int round_ = 0, newton_calls_ = 0;
    int64_t n_pairs_ = 0;  // of this round
    double newton_tol_ = 0.0;
};

}  // namespace mercer
