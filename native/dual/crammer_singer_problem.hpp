// A small quadratic programme whose variable beta is a matrix (examples x classes) and whose kernel values are in
// memory:
//     min 1/2 sum_k beta_k' K beta_k + sum_ik q_ik beta_ik   s.t.   sum_k beta_ik = 0,
//     beta_ik <= 0, and beta_ik <= C_i for the class k = y_i of example i.
// So beta_i = C_i e_{y_i} - t_i with t_i >= 0 whose sum is C_i. The problem is given by its gradient g = K beta + q.
#pragma once

#include "dual/block_problem.hpp"

namespace mercer {

template <class Real>
struct JointProblem {
    int64_t size, n_classes;
    const Real* matrix;  // row-major, symmetric; rows padded to a multiple of kBlockPadding
    int64_t stride;
    double *beta, *gradient;        // (size, n_classes), row-major
    const int64_t* labels;          // y_i
    const double* penalty;          // C_i
    bool (*stop)(void*) = nullptr;  // conjugate gradients call it from time to time; true stops them
    void* stop_context = nullptr;
};

// Solves the subproblem of one example after the other exactly; ends after max_iter examples or max_work
// multiplications. The second function makes one run of conjugate gradients on the current face; its iterations count
// as steps.
namespace baseline {
BlockResult joint_steps(const JointProblem<double>&, bool conjugate, double tol, int64_t max_iter, double max_work);
BlockResult joint_steps_single(const JointProblem<float>&, bool conjugate, double tol, int64_t max_iter,
                               double max_work);
}  // namespace baseline
namespace avx2 {
BlockResult joint_steps(const JointProblem<double>&, bool conjugate, double tol, int64_t max_iter, double max_work);
BlockResult joint_steps_single(const JointProblem<float>&, bool conjugate, double tol, int64_t max_iter,
                               double max_work);
}  // namespace avx2
namespace avx512 {
BlockResult joint_steps(const JointProblem<double>&, bool conjugate, double tol, int64_t max_iter, double max_work);
BlockResult joint_steps_single(const JointProblem<float>&, bool conjugate, double tol, int64_t max_iter,
                               double max_work);
}  // namespace avx512

}  // namespace mercer
