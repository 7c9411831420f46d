// Steps between the epochs of several classes: for each class, the best combination of the changes of its last two
// epochs. `SubspaceSteps` (subspace_step.hpp) does the same for one problem, and says why.
#pragma once

#include <cstdint>

#include "rows/table.hpp"

namespace mercer {

// Arrays of several classes have the class as the last index.
struct ClassStep {
    const LinearTable& table;
    bool is_squared;  // whether the hinge losses are squared
    int64_t n_classes;
    const double* charges;           // n_rows x n_classes: C_i with the sign of the target
    double *beta, *w;                // n_rows x n_classes and width x n_classes, as in ClassEpoch
    double *beta_before, *w_before;  // where the last step ended; then, where this one ends
    double *beta_change, *w_change;  // the change up to the last step, and then up to this one
    double* moved;                   // width x n_classes: memory
    double* growth;                  // n_classes: written: how much the dual objectives grow
};

// Returns false if a row is out of range; such rows count as empty. Only for sparse tables.
using ClassStepFunction = bool (*)(const ClassStep&);

namespace baseline {
bool class_step(const ClassStep&);
}
namespace avx2 {
bool class_step(const ClassStep&);
}
namespace avx512 {
bool class_step(const ClassStep&);
}

}  // namespace mercer
