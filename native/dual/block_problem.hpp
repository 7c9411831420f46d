// A small quadratic programme whose whole matrix is in memory:
//     min 1/2 beta' K beta + q' beta   s.t.   lower <= beta <= upper,   the sum of beta over each group is fixed.
// It is given by its gradient g = K beta + q, so that q itself is not needed. The matrix is stored in double precision,
// or in single precision to halve the memory that a step reads. All other inputs and outputs are double.
#pragma once

#include <cstdint>

namespace mercer {

// Rows of the matrix that are evaluated when a step first needs them. If few variables move, few rows are evaluated.
struct LazyRows {
    void (*fetch)(void* context, int64_t row);
    void* context;
    const char* evaluated;  // whether each row has been evaluated
    const double* diagonal;
};

template <class Real>
struct BlockProblem {
    int64_t size;
    const Real* matrix;  // row-major, symmetric; rows padded with zeros to a multiple of kBlockPadding
    int64_t stride;
    double* beta;
    double* gradient;
    const double *lower, *upper;
    const int64_t* group_starts;    // n_groups + 1 offsets: the variables of a group are contiguous
    int64_t n_groups;               // 0: no equality constraint
    int n_threads = 1;              // used by steps on many variables
    bool (*stop)(void*) = nullptr;  // long Newton steps call it from time to time; true stops them
    void* stop_context = nullptr;
    LazyRows* lazy = nullptr;  // null if the whole matrix is evaluated; only SMO accepts lazy rows
};

constexpr int64_t kBlockPadding = 16;  // numbers in the widest float32 vector
constexpr int64_t padded(int64_t size) { return (size + kBlockPadding - 1) / kBlockPadding * kBlockPadding; }

enum class BlockEnd : int { solved, limit, stalled };

struct BlockResult {
    BlockEnd end;
    int64_t n_iter;
    double violation;         // largest KKT violation in the block
    bool is_stopped = false;  // whether `stop` returned true
};

template <class Real>
using BlockSolver = BlockResult (*)(const BlockProblem<Real>&, double tol, int64_t max_iter);

// block_values: the product of the matrix and beta, computed from the point alone.
// pair_steps: sequential minimal optimisation with second-order selection [Fan, Chen & Lin 2005, WSS 2].
// newton_steps: active-set Newton, with exact steps on the free variables.
namespace baseline {
void block_values(const BlockProblem<double>&, double* values);
BlockResult pair_steps(const BlockProblem<double>&, double tol, int64_t max_iter);
BlockResult pair_steps_single(const BlockProblem<float>&, double tol, int64_t max_iter);
BlockResult newton_steps(const BlockProblem<double>&, double tol, int64_t max_iter);
BlockResult newton_steps_single(const BlockProblem<float>&, double tol, int64_t max_iter);
}  // namespace baseline
namespace avx2 {
void block_values(const BlockProblem<double>&, double* values);
BlockResult pair_steps(const BlockProblem<double>&, double tol, int64_t max_iter);
BlockResult pair_steps_single(const BlockProblem<float>&, double tol, int64_t max_iter);
BlockResult newton_steps(const BlockProblem<double>&, double tol, int64_t max_iter);
BlockResult newton_steps_single(const BlockProblem<float>&, double tol, int64_t max_iter);
}  // namespace avx2
namespace avx512 {
void block_values(const BlockProblem<double>&, double* values);
BlockResult pair_steps(const BlockProblem<double>&, double tol, int64_t max_iter);
BlockResult pair_steps_single(const BlockProblem<float>&, double tol, int64_t max_iter);
BlockResult newton_steps(const BlockProblem<double>&, double tol, int64_t max_iter);
BlockResult newton_steps_single(const BlockProblem<float>&, double tol, int64_t max_iter);
}  // namespace avx512

}  // namespace mercer
