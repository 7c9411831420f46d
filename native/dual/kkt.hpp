// The directions in which variables of a block can move, and the KKT violation.
#pragma once

#include "dual/block_problem.hpp"
#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

constexpr double kInfinity = __builtin_inf();

// The extreme gradients of a group: m = min g over variables that can grow, M = max g over variables that can shrink.
// The group is optimal if M - m <= tol.
struct Extremes {
    int64_t up = -1, low = -1;
    double up_gradient = kInfinity, low_gradient = -kInfinity;
    double violation() const { return up < 0 || low < 0 ? 0.0 : __builtin_fmax(0.0, low_gradient - up_gradient); }
};

template <class Real>
inline bool can_grow(const BlockProblem<Real>& block, int64_t u) {
    return block.beta[u] < block.upper[u];
}
template <class Real>
inline bool can_shrink(const BlockProblem<Real>& block, int64_t u) {
    return block.beta[u] > block.lower[u];
}
template <class Real>
inline bool is_free(const BlockProblem<Real>& block, int64_t u) {
    return can_grow(block, u) && can_shrink(block, u);
}

template <class Real>
inline Extremes find_extremes(const BlockProblem<Real>& block, int64_t first, int64_t last) {
    Extremes e;
    for (int64_t u = first; u < last; ++u) {
        if (can_grow(block, u) && block.gradient[u] < e.up_gradient) e.up = u, e.up_gradient = block.gradient[u];
        if (can_shrink(block, u) && block.gradient[u] > e.low_gradient) e.low = u, e.low_gradient = block.gradient[u];
    }
    return e;
}

// Returns the violation of variable u alone, for problems without equality constraints.
template <class Real>
inline double lone_violation(const BlockProblem<Real>& block, int64_t u) {
    const double g = block.gradient[u];
    if (g < 0.0) return can_grow(block, u) ? -g : 0.0;
    return can_shrink(block, u) ? g : 0.0;
}

template <class Real>
inline double block_violation(const BlockProblem<Real>& block) {
    double worst = 0.0;
    if (block.n_groups == 0)
        for (int64_t u = 0; u < block.size; ++u) worst = __builtin_fmax(worst, lone_violation(block, u));
    for (int64_t g = 0; g < block.n_groups; ++g)
        worst =
            __builtin_fmax(worst, find_extremes(block, block.group_starts[g], block.group_starts[g + 1]).violation());
    return worst;
}

}  // namespace mercer::MERCER_ISA
