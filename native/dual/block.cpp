#include "dual/block.hpp"

#include <algorithm>
#include <cmath>

namespace mercer {
namespace {

constexpr int64_t kSteps = 2,
                  kPatientSteps = 100;  // steps a variable before Newton steps, in single and in double precision
constexpr int64_t kBrief = 10;          // one SMO step for this many variables, if Newton steps follow in any case
// SMO may cost as much as Newton steps would, in steps times variables: free^3 / 16 for an inverse, or 16 free^2 for a
// float32 factor with changes of side, and free^3 / 256 beyond kFewFree.
constexpr double kInverse = 16.0, kChanges = 16.0, kFactor = 256.0;
constexpr double kUncertain = 8.0;      // factor of the budget if the free variables may not be those of the solution
constexpr double kKnownToBeSlow = 4.0;  // divisor of the budget once SMO has spent it without success
constexpr double kNoise = 0x1p-23;      // rounding error of a float32 gradient, relative to the length of the change
constexpr double kNewtonWork = 1e8;     // multiplications in one call of float64 Newton steps
constexpr int kNewtonCalls = 40;
constexpr int64_t kLeastSize = 64;  // smallest size that counts as work; a step on fewer variables takes as long

}  // namespace

template <class Real>
Block<Real>::Block(const Implementation& native, const BlockProblem<Real>& problem, const BlockLimits& limits)
    : AnyBlock(limits), native_(native), p_(problem), before_(problem.beta, problem.beta + problem.size) {
    n_free_ = count_free();
}

template <class Real>
void Block<Real>::step(int64_t most) {
    if (phase_ == Phase::pairs)
        pair_steps(most);
    else if (phase_ == Phase::newton)
        newton_steps(most);
}

template <class Real>
void Block<Real>::go_on_from_here() {
    phase_ = Phase::pairs;
    has_diverged_ = false;
    limits_.diverged_above = BlockLimits::kInfinity;
    n_pairs_ = 0;
    n_free_ = count_free();
}

template <class Real>
void Block<Real>::pair_steps(int64_t most) {
    const int64_t steps =
        std::min({std::max<int64_t>(1, static_cast<int64_t>(kBriefWork) / std::max<int64_t>(1, p_.size)),
                  smo_budget() - n_pairs_, most});
    if (steps <= 0) {
        phase_ = Phase::finished;
        return;
    }
    const BlockEnd end = run(false, std::max(limits_.tol, noise()), steps);
    n_pairs_ += steps;
    has_diverged_ = end == BlockEnd::limit && violation_ > limits_.diverged_above;
    limits_.diverged_above = BlockLimits::kInfinity;
    if (has_diverged_)
        phase_ = Phase::finished;
    else if (end != BlockEnd::limit || n_pairs_ >= smo_budget())
        end_pairs(end);
}

template <class Real>
void Block<Real>::end_pairs(BlockEnd end) {
    exact_ = !kSingle && n_free_ <= limits_.exact_free;
    if (limits_.convex && (exact_ || end == BlockEnd::limit) && n_free_ <= most_ever()) {
        newton_tol_ = exact_ ? rounding() : limits_.newton_tol;
        phase_ = Phase::newton;
    } else {
        end_round(end);
    }
}

template <class Real>
void Block<Real>::newton_steps(int64_t most) {
    if (newton_calls_ == kNewtonCalls || n_free_ > most_ever() || most <= 0) return end_round(BlockEnd::limit);
    ++newton_calls_;
    const auto free = static_cast<double>(n_free_);
    const double one = 4.0 * free * free + free * static_cast<double>(p_.size) + 1.0;
    const int64_t steps = kSingle ? n_free_ + 64 : static_cast<int64_t>(std::clamp(kNewtonWork / one, 8.0, 2000.0));
    limits_.smo_slow = limits_.smo_slow || !exact_;
    newton_free_ = std::max(newton_free_, n_free_);
    if (p_.lazy != nullptr) fetch_all();
    const BlockEnd end = run(true, std::max(newton_tol_, noise()), std::min(steps, most));
    if (end != BlockEnd::limit) end_round(end);
}

template <class Real>
void Block<Real>::end_round(BlockEnd end) {
    const bool is_over = end == BlockEnd::solved || (end == BlockEnd::stalled && (exact_ || !kSingle));
    phase_ = is_over || ++round_ >= limits_.n_rounds ? Phase::finished : Phase::pairs;
    n_pairs_ = 0;
}

template <class Real>
BlockEnd Block<Real>::run(bool newton, double tol, int64_t steps) {
    const auto free = static_cast<double>(n_free_);
    const BlockSolver<Real> solver = newton ? newton_steps_of<Real>(native_) : pair_steps_of<Real>(native_);
    const BlockResult ended = solver(p_, tol, steps);
    n_iter_ += ended.n_iter, n_newton_ += newton ? ended.n_iter : 0;
    work_ += newton ? free * free * free / 6.0 : static_cast<double>(ended.n_iter * std::max(p_.size, kLeastSize));
    violation_ = ended.violation;
    n_free_ = count_free();
    is_stopped_ = ended.is_stopped;
    return ended.end;
}

// Newton steps need all rows.
template <class Real>
void Block<Real>::fetch_all() const {
    for (int64_t i = 0; i < p_.size; ++i)
        if (!p_.lazy->evaluated[i]) p_.lazy->fetch(p_.lazy->context, i);
}

template <class Real>
int64_t Block<Real>::count_free() const {
    int64_t count = 0;
    for (int64_t u = 0; u < p_.size; ++u) count += (p_.lower[u] < p_.beta[u]) & (p_.beta[u] < p_.upper[u]);
    return count;
}

template <class Real>
int64_t Block<Real>::most_free() const {
    return violation_ <= limits_.close ? limits_.most_close : limits_.most_free;
}

template <class Real>
int64_t Block<Real>::most_ever() const {
    return std::max(most_free(), limits_.most_if_slow);
}

// Returns the number of SMO steps before Newton steps.
template <class Real>
int64_t Block<Real>::smo_budget() const {
    const int64_t size = std::max<int64_t>(1, p_.size);
    const bool ends = limits_.brief_free >= 0;
    if (n_free_ > most_ever() || !(kSingle || limits_.smo_slow || ends)) return kPatientSteps * size + 2000;
    if (limits_.smo_slow && n_free_ <= limits_.brief_free) return 1 + size / kBrief;
    const auto free = static_cast<double>(n_free_);
    double cost = free * free * free / (n_free_ <= kFewFree ? kInverse : kFactor);
    if (kSingle && n_free_ <= kFewFree) cost = std::min(cost, kChanges * free * free);
    if (n_free_ > most_free()) cost *= kUncertain;
    return kSteps * size +
           static_cast<int64_t>(cost / ((limits_.smo_slow ? kKnownToBeSlow : 1.0) * static_cast<double>(size)));
}

// Returns approximately the smallest violation that float32 can reach.
template <class Real>
double Block<Real>::noise() const {
    if (!kSingle) return 0.0;
    double squares = 0.0;
    for (std::size_t k = 0; k < before_.size(); ++k) {
        const double change = p_.beta[k] - before_[k];
        squares += change * change;
    }
    return kNoise * limits_.largest * std::sqrt(squares);
}

// Returns approximately the smallest violation that float64 can distinguish from 0.
template <class Real>
double Block<Real>::rounding() const {
    double longest = 0.0, mass = 0.0;
    for (int64_t u = 0; u < p_.size; ++u) {
        const double square =
            p_.lazy != nullptr ? p_.lazy->diagonal[u] : static_cast<double>(p_.matrix[u * (p_.stride + 1)]);
        const double length = std::sqrt(std::fabs(square));
        longest = std::max(longest, length);
        mass += std::fabs(p_.beta[u]) * length;
    }
    return 16.0 * std::numeric_limits<double>::epsilon() * (1.0 + longest * mass);
}

template class Block<float>;
template class Block<double>;

}  // namespace mercer
