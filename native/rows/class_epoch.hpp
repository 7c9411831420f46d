// Dual coordinate descent for the machines of several classes on the same sparse rows, each the class against the rest.
// A visit of a row makes the step of every class, so that the entries of the row are read once for all classes.
#pragma once

#include <cstdint>

#include "rows/table.hpp"

namespace mercer {

constexpr int64_t kMostClasses = 16;    // of an epoch
constexpr int64_t kClassesAtATime = 4;  // n_classes is a multiple; classes without active rows fill it up

// Arrays of several classes have the class as the last index.
struct ClassEpoch {
    const LinearTable& table;
    bool is_squared;       // whether the hinge losses are squared
    const int64_t* order;  // the rows to visit
    int64_t n_visits;
    int64_t n_classes;
    const double* squares;    // ||x||^2 of each row, with the constant
    const double* charges;    // n_rows x n_classes: C_i with the sign of the target
    double* beta;             // n_rows x n_classes, feasible
    double* w;                // width x n_classes: the sums of beta_i x_i
    uint16_t* active;         // n_rows: bit k says whether class k visits the row; shrinking clears it
    const double *up, *down;  // n_classes: a row at a bound is shrunken if its gradient is beyond them
    // 4 x n_classes: the gap of the visited rows is added, the largest and the least violation of optimality are
    // included, and the growth of the dual objective is added.
    double* measures;
    int64_t* n_shrunken;  // n_classes: rows that were shrunken are added
};

// Returns false if a row is out of range; such rows count as empty. Only for sparse tables.
using ClassEpochFunction = bool (*)(const ClassEpoch&);

namespace baseline {
bool class_epoch(const ClassEpoch&);
}
namespace avx2 {
bool class_epoch(const ClassEpoch&);
}
namespace avx512 {
bool class_epoch(const ClassEpoch&);
}

}  // namespace mercer
