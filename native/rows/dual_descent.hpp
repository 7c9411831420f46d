// Dual coordinate descent for linear machines: one dual coefficient after the other is optimised exactly.
//
// Solves max over beta of the sum of -C_i l*(-beta_i / C_i; y_i) minus ||w||^2 / 2, w = sum_i beta_i x_i
// [Hsieh, Chang, Lin, Keerthi & Sundararajan 2008; Yu, Huang & Lin 2011; Ho & Lin 2012].
#pragma once

#include <cstdint>
#include <memory>

#include "rows/table.hpp"

namespace mercer {

enum class LinearLoss : int { hinge, squared_hinge, logistic, epsilon_insensitive, squared_epsilon_insensitive };

struct DescentProblem {
    LinearLoss loss;
    double epsilon;
    const double* targets;  // -1 and +1 for losses that classify
    const double* charges;  // C_i >= 0; rows of charge 0 are not visited
    double* beta;           // feasible
    double* w;              // sum of beta_i x_i over these rows, plus that over any others
    uint64_t seed;          // of the order of the rows
    bool (*stop)(void*);    // asks whether to stop; null: never
    void* stop_context;
};

struct DescentReport {
    int64_t n_epochs;  // epochs that were made; the last one may be incomplete after a stop
    int64_t n_steps;   // visits of rows
    double gap;        // estimated duality gap of the visited rows in the last epoch
    int64_t n_active;  // rows that are not shrunken
    bool is_finished;  // whether an epoch over all rows estimated the gap to be at most the target
};

class DualDescent {
  public:
    virtual ~DualDescent() = default;

    // Makes up to `most` epochs. Rows that stay at a bound are shrunken: they are not visited until the gap of the
    // others is at most `target`. The gap of a row is measured just before its step, so that their sum is an estimate:
    // it is that of no single w.
    virtual DescentReport run(int64_t most, double target) = 0;

    // The largest ||x||^2 of a row, with its constant.
    virtual double largest_square() const = 0;
};

// Null if a CSR table has indices out of range.
std::unique_ptr<DualDescent> make_dual_descent(const LinearTable& table, const DescentProblem& problem);

}  // namespace mercer
