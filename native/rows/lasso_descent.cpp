#include "rows/lasso_descent.hpp"

#include <cmath>
#include <numeric>
#include <vector>

namespace mercer {
namespace {

constexpr int kInner = 10;  // passes over the elements that are not 0 for a pass over all

// Optimises over each of these elements; returns the sum of their violations before their steps.
double pass(const Lasso& lasso, const std::vector<int64_t>& places) {
    double violations = 0.0;
    for (const int64_t j : places) {
        const double* row = lasso.matrix + j * lasso.size;
        const double bend = row[j], u = lasso.u[j], penalty = lasso.penalty[j], gradient = lasso.gradient[j];
        if (!(bend > 0.0)) continue;
        violations += u > 0.0   ? std::abs(gradient + penalty)
                      : u < 0.0 ? std::abs(gradient - penalty)
                                : std::fmax(0.0, std::abs(gradient) - penalty);
        const double push = bend * u - gradient;
        const double best = push > penalty ? (push - penalty) / bend : push < -penalty ? (push + penalty) / bend : 0.0;
        if (best == u) continue;
        const double step = best - u;
        lasso.u[j] = best;
        for (int64_t k = 0; k < lasso.size; ++k) lasso.gradient[k] += step * row[k];
    }
    return violations;
}

}  // namespace

LassoReport descend_lasso(const Lasso& lasso, double target, int64_t most) {
    LassoReport report{0, 0.0};
    std::vector<int64_t> all(static_cast<std::size_t>(lasso.size)), nonzero;
    std::iota(all.begin(), all.end(), int64_t{0});
    while (report.n_passes < most) {
        report.violation = pass(lasso, all);
        ++report.n_passes;
        if (report.violation <= target) break;
        nonzero.clear();
        for (const int64_t j : all)
            if (lasso.u[j] != 0.0) nonzero.push_back(j);
        for (int k = 0; k < kInner; ++k)
            if (pass(lasso, nonzero) <= target) break;
    }
    return report;
}

}  // namespace mercer
