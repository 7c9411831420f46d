// Solvers of a block, compiled once per instruction set (see simd.hpp).
#include "dual/block_problem.hpp"
#include "dual/crammer_singer_face.hpp"
#include "dual/crammer_singer_steps.hpp"
#include "dual/newton_steps.hpp"
#include "dual/smo.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kMostInverted = 2048;  // largest number of free variables with an inverse
// Up to this number of free variables, updating a factor in double precision costs less than computing a new one.
constexpr int64_t kFewUpdated = 512;
// Largest numbers of free variables for which an inverse costs less than a float32 factor: in all cases, and if most of
// the block is at bounds.
constexpr int64_t kFewInverted = 64, kMoreInverted = 256;

// Returns whether Newton steps on a float32 block begin with a float32 factor instead of a float64 inverse. They do if
// many variables are free, or if most of the block is free, so that few variables change sides.
constexpr bool is_factored(int64_t n_free, int64_t size) {
    return n_free > kFewInverted && (n_free > kMoreInverted || 2 * n_free > size);
}

template <class Real>
int64_t count_free(const BlockProblem<Real>& block) {
    int64_t n_free = 0;
    for (int64_t u = 0; u < block.size; ++u) n_free += is_free(block, u) ? 1 : 0;
    return n_free;
}

template <class Factor, class Real>
BlockResult run_newton(const BlockProblem<Real>& block, double tol, int64_t max_iter) {
    const int64_t n_free = count_free(block);
    const int64_t spare = 64 + n_free / 4;  // additional variables that may become free before a new call is needed
    const int64_t capacity = n_free + spare < block.size ? n_free + spare : block.size;
    return NewtonSteps<Real, Factor>(block, capacity).run(tol, max_iter);
}

// If Newton steps with one factorisation have not solved the block, another method (`go_on`) continues from their last
// point.
template <class Real>
BlockResult or_else(const BlockResult& done, const BlockProblem<Real>& block, BlockSolver<Real> go_on, double tol,
                    int64_t max_iter) {
    if (done.end == BlockEnd::solved || done.n_iter >= max_iter || done.is_stopped) return done;
    const BlockResult more = go_on(block, tol, max_iter - done.n_iter);
    return {more.end, done.n_iter + more.n_iter, more.violation, more.is_stopped};
}

}  // namespace

void block_values(const BlockProblem<double>& block, double* values) {
    for (int64_t v = 0; v < block.size; ++v) values[v] = 0.0;
    const int64_t n_full = block.size / kLanes * kLanes;
    for (int64_t u = 0; u < block.size; ++u) {  // rows instead of columns, because the matrix is symmetric
        const double weight = block.beta[u];
        if (weight == 0.0) continue;
        const double* row = block.matrix + u * block.stride;
        for (int64_t v = 0; v < n_full; v += kLanes)
            store(values + v, load_vector(values + v) + weight * load_vector(row + v));
        for (int64_t v = n_full; v < block.size; ++v) values[v] += weight * row[v];
    }
}

BlockResult pair_steps(const BlockProblem<double>& block, double tol, int64_t max_iter) {
    return SmoSteps<double>(block).run(tol, max_iter);
}

BlockResult pair_steps_single(const BlockProblem<float>& block, double tol, int64_t max_iter) {
    return SmoSteps<float>(block).run(tol, max_iter);
}

BlockResult newton_steps(const BlockProblem<double>& block, double tol, int64_t max_iter) {
    const int64_t n_free = count_free(block);
    if (n_free <= kFewUpdated || 2 * n_free <= block.size) return run_newton<Cholesky>(block, tol, max_iter);
    const BlockResult done = run_newton<FactoredInverse<double>>(block, tol, max_iter);
    return or_else(done, block, run_newton<Cholesky, double>, tol, max_iter);
}

BlockResult newton_steps_single(const BlockProblem<float>& block, double tol, int64_t max_iter) {
    const int64_t n_free = count_free(block);
    if (!is_factored(n_free, block.size)) return run_newton<Inverse>(block, tol, max_iter);
    const BlockResult done = run_newton<FactoredInverse<float>>(block, tol, max_iter);
    if (n_free > kMostInverted) return done;
    const bool many = count_free(block) > kFewUpdated;
    return or_else(done, block, many ? run_newton<FactoredInverse<double>, float> : run_newton<Inverse, float>, tol,
                   max_iter);
}

BlockResult joint_steps(const JointProblem<double>& block, bool conjugate, double tol, int64_t max_iter,
                        double max_work) {
    return conjugate ? JointFace<double>(block).run(tol, max_iter)
                     : JointSteps<double>(block).run(tol, max_iter, max_work);
}

BlockResult joint_steps_single(const JointProblem<float>& block, bool conjugate, double tol, int64_t max_iter,
                               double max_work) {
    return conjugate ? JointFace<float>(block).run(tol, max_iter)
                     : JointSteps<float>(block).run(tol, max_iter, max_work);
}

}  // namespace mercer::MERCER_ISA
