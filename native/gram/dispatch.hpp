// Chooses, once per call, the functions that were compiled for the best instruction set of this processor.
#pragma once

#include "dual/crammer_singer_problem.hpp"
#include "gram/integer_tile.hpp"
#include "gram/row_sums.hpp"
#include "gram/strings.hpp"
#include "gram/tiles.hpp"
#include "gram/words.hpp"
#include "rows/class_epoch.hpp"
#include "rows/class_step.hpp"
#include "rows/newton_pass.hpp"
#include "rows/row_terms.hpp"
#include "rows/sweeps.hpp"

namespace mercer {

template <class Real>
using JointSolver = BlockResult (*)(const JointProblem<Real>&, bool conjugate, double tol, int64_t max_iter,
                                    double max_work);

struct Implementation {
    const char* name;  // "avx512", "avx2" or "baseline"
    BlockFunction block;
    MatvecFunction matvec, matvec_single;
    BlockSingleFunction block_single, block_rounded;
    void (*block_values)(const BlockProblem<double>&, double* values);
    BlockSolver<double> pair_steps, newton_steps;
    BlockSolver<float> pair_steps_single, newton_steps_single;
    JointSolver<double> joint_steps;
    JointSolver<float> joint_steps_single;
    EditDistances edit_distances;
    Subsequences subsequences;
    Alignments alignments;
    WordPairs word_pairs;
    WordTransform word_transform;
    TransformUnits transform_units;
    Combine<double> combine;
    Combine<float> combine_single;
    RowProductsFunction row_products;
    SquaresFunction row_squares;
    WeightedSumsFunction weighted_sums;
    SquaresFunction column_squares;
    ClassEpochFunction class_epoch;
    ClassStepFunction class_step;
    RowTermsFunction row_terms;
    TermLineFunction term_line;
    NewtonPassFunction newton_pass;
    BitTile bit_tile;
    bool counts_bits = false;            // whether few instructions count the bits of a vector, so that bits are faster
    IntegerTile integer_tile = nullptr;  // null if integer tiles would not be faster than floating-point tiles
    IntegerRow integer_row = nullptr;
};

// The function that computes weighted sums of rows cached in this precision.
template <class Cached>
Combine<Cached> combine_of(const Implementation& native) {
    if constexpr (sizeof(Cached) == sizeof(float))
        return native.combine_single;
    else
        return native.combine;
}

template <class Real>
BlockSolver<Real> pair_steps_of(const Implementation& native) {
    if constexpr (sizeof(Real) == sizeof(float))
        return native.pair_steps_single;
    else
        return native.pair_steps;
}

template <class Real>
BlockSolver<Real> newton_steps_of(const Implementation& native) {
    if constexpr (sizeof(Real) == sizeof(float))
        return native.newton_steps_single;
    else
        return native.newton_steps;
}

// Returns the implementation of that name, or null if this processor or this build does not have it.
const Implementation* find_implementation(const char* name);

const Implementation& best_implementation();

}  // namespace mercer
