#include "dual/qp_batch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dual/batch_rounds.hpp"
#include "dual/single_precision_qp.hpp"
#include "parallel/parallel.hpp"

namespace mercer {
namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr std::uintptr_t kAlignment = 64;
constexpr int64_t kPairWork = 20'000'000;  // steps times variables of SMO in one call, about 10 to 20 ms
constexpr double kNewtonWork = 1e8;        // multiplications of Newton steps in one call, about the same time

// Returns the workspace of the largest machine: its whole matrix, or the workspace of its rounds.
int64_t workspace_size(const Machine* machines, int64_t n_machines, const MatrixSizes& sizes) {
    int64_t most = 0;
    for (int64_t m = 0; m < n_machines; ++m) {
        const int64_t size = machines[m].size;
        most = std::max(most, size > sizes.full_matrix                        ? machine_room(size)
                              : size > std::max(sizes.in_double, sizes.exact) ? machine_single_room(size)
                                                                              : size * padded(size));
    }
    return most;
}

class Batch {
  public:
    Batch(const Implementation& native, const MachineBatch& batch, double* workspace, MachineResult* results)
        : native_(native), batch_(batch), results_(results) {
        const auto start = reinterpret_cast<std::uintptr_t>(workspace);
        workspaces_ = reinterpret_cast<double*>((start + kAlignment - 1) / kAlignment * kAlignment);
        int64_t offset = 0;
        for (int64_t part = 0; part < batch.n_parts; ++part) {
            shared_offsets_.push_back(offset);
            offset += part_size(part) * part_size(part);
        }
    }

    // Each thread has a workspace of its own and takes the next machine when it is free.
    int64_t run(int n_threads) {
        if (batch_.shared != nullptr && batch_.fill_shared) {
            auto fill = [](void* self, int64_t part) { static_cast<Batch*>(self)->evaluate_shared(part); };
            parallel_for(batch_.n_parts, n_threads, fill, this);
        }
        auto task = [](void* self, int64_t thread) { static_cast<Batch*>(self)->work(thread); };
        parallel_for(n_threads, n_threads, task, this);
        return std::min(next_.load(), batch_.n_machines);
    }

  private:
    void work(int64_t thread) {
        double* workspace = workspaces_ + thread * workspace_size(batch_.machines, batch_.n_machines, batch_.sizes);
        do {
            const int64_t m = next_.fetch_add(1);
            if (m >= batch_.n_machines) return;
            solve(m, workspace);
            const MachineResult& r = results_[m];
            const auto size = static_cast<double>(batch_.machines[m].size);
            work_.fetch_add(batch_.value_work * static_cast<double>(r.n_values) + size * static_cast<double>(r.n_iter));
        } while (work_.load() < batch_.work_limit);
    }

    RowsView part_rows(const RowsView& all, int64_t part) const {
        RowsView rows = all;
        rows.rows = batch_.rows + batch_.part_starts[part];
        rows.count = batch_.part_starts[part + 1] - batch_.part_starts[part];
        return rows;
    }

    void evaluate(int64_t a, int64_t b, double* out, int64_t stride) const {
        TileRequest request = batch_.kernel;
        request.left = part_rows(batch_.kernel.left, a);
        request.right = part_rows(batch_.kernel.right, b);
        request.symmetric = a == b;
        native_.block(request, out, stride);
    }

    void evaluate_shared(int64_t part) const {
        evaluate(part, part, batch_.shared + shared_offsets_[static_cast<std::size_t>(part)], part_size(part));
    }

    int64_t part_size(int64_t part) const { return batch_.part_starts[part + 1] - batch_.part_starts[part]; }

    // Writes K[part, part] as a diagonal block of `out`.
    void fill_part(int64_t part, double* out, int64_t stride) const {
        if (batch_.shared == nullptr) return evaluate(part, part, out, stride);
        const double* matrix = batch_.shared + shared_offsets_[static_cast<std::size_t>(part)];
        const int64_t size = part_size(part);
        for (int64_t i = 0; i < size; ++i) std::copy_n(matrix + i * size, size, out + i * stride);
    }

    // Fills the matrix of a machine; returns the number of evaluated kernel values.
    int64_t fill(const Machine& machine, double* matrix) const {
        const int64_t stride = padded(machine.size), n_first = part_size(machine.first);
        fill_part(machine.first, matrix, stride);
        if (machine.second >= 0) {
            fill_part(machine.second, matrix + n_first * (stride + 1), stride);
            evaluate(machine.first, machine.second, matrix + n_first, stride);
            constexpr int64_t kTile = 16;  // a tile stays in the cache while it is transposed
            for (int64_t i0 = 0; i0 < n_first; i0 += kTile)
                for (int64_t j0 = n_first; j0 < machine.size; j0 += kTile)
                    for (int64_t j = j0; j < std::min(j0 + kTile, machine.size); ++j)
                        for (int64_t i = i0; i < std::min(i0 + kTile, n_first); ++i)
                            matrix[j * stride + i] = matrix[i * stride + j];
        }
        for (int64_t i = 0; i < machine.size; ++i)
            std::fill(matrix + i * stride + machine.size, matrix + (i + 1) * stride, 0.0);
        const int64_t n_second = machine.size - n_first;
        return n_first * n_second + (batch_.shared == nullptr ? n_first * n_first + n_second * n_second : 0);
    }

    void solve(int64_t m, double* workspace) const {
        const auto began = std::chrono::steady_clock::now();
        const Machine& machine = batch_.machines[m];
        MachineResult& result = results_[m];
        std::vector<double> diagonal(static_cast<std::size_t>(machine.size));
        const bool large = machine.size > batch_.sizes.in_double;
        if (large) solve_large(machine, workspace, diagonal.data(), result);
        if (!large || (machine.size <= std::min(batch_.sizes.exact, batch_.sizes.full_matrix) && may_go_on(result)))
            solve_whole(machine, workspace, diagonal.data(), result);
        describe(machine, diagonal.data(), result);
        result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }

    // Returns whether steps are left and `stop` has not returned true.
    bool may_go_on(const MachineResult& result) const {
        return result.n_iter != batch_.max_iter && (batch_.stop == nullptr || !batch_.stop(batch_.stop_context));
    }

    // Solves a machine with the solvers that begin in single precision.
    void solve_large(const Machine& machine, double* workspace, double* diagonal, MachineResult& result) const {
        std::vector<int64_t> rows;
        for (const int64_t part : {machine.first, machine.second})
            for (int64_t k = 0; part >= 0 && k < part_size(part); ++k) {
                const int64_t at = batch_.part_starts[part] + k;
                diagonal[rows.size()] = batch_.diagonal[at];
                rows.push_back(batch_.rows[at]);
            }
        double largest = 0.0;
        for (int64_t u = 0; u < machine.size; ++u) largest = std::max(largest, std::fabs(diagonal[u]));
        MachineProblem problem{batch_.kernel,
                               {machine_part(machine.first), machine_part(machine.second)},
                               batch_.linear + machine.offset,
                               batch_.lower + machine.offset,
                               batch_.upper + machine.offset,
                               batch_.start + machine.offset,
                               batch_.grouped,
                               largest,
                               batch_.beta + machine.offset,
                               batch_.values + machine.offset};
        for (RowsView* side : {&problem.kernel.left, &problem.kernel.right})
            side->rows = rows.data(), side->count = machine.size;
        const MachineLimits limits{batch_.tol, batch_.max_iter, batch_.value_work, batch_.stop, batch_.stop_context};
        const auto solver = machine.size > batch_.sizes.full_matrix ? machine_rounds : machine_in_single;
        const MachineEnd ended = solver(native_, problem, limits, workspace);
        result.end = ended.end, result.n_iter = ended.n_iter, result.n_values = ended.n_values;
        result.newton_free = ended.newton_free;
    }

    MachinePart machine_part(int64_t part) const {
        if (part < 0) return {0, batch_.shared};  // a part without rows
        double* matrix = batch_.shared;
        return {part_size(part),
                matrix == nullptr ? nullptr : matrix + shared_offsets_[static_cast<std::size_t>(part)]};
    }

    void solve_whole(const Machine& machine, double* matrix, double* diagonal, MachineResult& result) const {
        result.n_values += fill(machine, matrix);
        double* beta = batch_.beta + machine.offset;
        double* values = batch_.values + machine.offset;
        const double *linear = batch_.linear + machine.offset, *start = batch_.start + machine.offset;
        const double *lower = batch_.lower + machine.offset, *upper = batch_.upper + machine.offset;
        const int64_t group[2] = {0, machine.size};
        BlockProblem<double> block{machine.size, matrix, padded(machine.size),  beta, values, lower,
                                   upper,        group,  batch_.grouped ? 1 : 0};
        native_.block_values(block, values);
        for (int64_t u = 0; u < machine.size; ++u)
            values[u] += linear[u];  // `values` has the gradient while the machine is being solved
        descend(block, result);
        if (batch_.grouped) balance(machine.size, beta, find_sum(machine.size, start), lower, upper);
        native_.block_values(block, values);
        for (int64_t u = 0; u < machine.size; ++u) diagonal[u] = matrix[u * (block.stride + 1)];
    }

    // Computes objectives and conditions of the point from the matrix times beta.
    void describe(const Machine& machine, const double* diagonal, MachineResult& result) const {
        const double *beta = batch_.beta + machine.offset, *values = batch_.values + machine.offset;
        const double *linear = batch_.linear + machine.offset, *start = batch_.start + machine.offset;
        const double *lower = batch_.lower + machine.offset, *upper = batch_.upper + machine.offset;
        result.multiplier = 0.0;
        result.conditions = find_conditions(
            {machine.size, beta, values, linear, lower, upper, start, nullptr, nullptr, batch_.grouped ? 1 : 0},
            &result.multiplier);
        result.longest = result.spread = result.largest = 0.0;
        double charge = 0.0, total = 0.0;
        for (int64_t u = 0; u < machine.size; ++u) {
            const double square = std::fabs(diagonal[u]);
            result.longest = std::max(result.longest, square);
            result.spread += square * beta[u] * beta[u];
            result.largest = std::max(result.largest, std::fabs(values[u]));
            const double push = result.multiplier - values[u] - linear[u];
            if (push != 0.0) charge += (push > 0.0 ? upper[u] : lower[u]) * push;
            total += start[u];
        }
        result.longest = std::sqrt(result.longest);
        result.primal = 0.5 * result.conditions.quadratic + charge - result.multiplier * total;
    }

    // Solves a block with SMO, and with Newton steps if SMO is slow. Small problems always end with Newton steps, which
    // continue to the limit of double precision.
    void descend(const BlockProblem<double>& block, MachineResult& result) const {
        const bool exact = block.size <= batch_.sizes.exact;
        const int64_t enough = std::min(100 * block.size + 2000, kPairWork / block.size);
        const int64_t left = batch_.max_iter - result.n_iter;
        const bool limited = batch_.max_iter >= 0 && left <= enough;
        const BlockResult pairs = native_.pair_steps(block, 0.5 * batch_.tol, limited ? left : enough);
        result.end = pairs.end;
        result.n_iter += pairs.n_iter;
        if ((limited && pairs.end == BlockEnd::limit) || !(exact || pairs.end == BlockEnd::limit)) return;
        const double tol = exact ? rounding(block) : 0.5 * batch_.tol;
        const auto size = static_cast<double>(block.size);
        for (double work = 0.0; work < kNewtonWork;) {  // each call returns when the free variables exceed its capacity
            double n_free = 0.0;
            for (int64_t u = 0; u < block.size; ++u)
                n_free += block.lower[u] < block.beta[u] && block.beta[u] < block.upper[u] ? 1.0 : 0.0;
            if (n_free * n_free * n_free > 3.0 * kNewtonWork) return;
            const double step = 4.0 * n_free * n_free + n_free * size + size;
            int64_t steps = static_cast<int64_t>((kNewtonWork - work) / step) + 1;
            if (batch_.max_iter >= 0) steps = std::min(steps, batch_.max_iter - result.n_iter);
            const BlockResult newton = native_.newton_steps(block, tol, steps);
            result.end = newton.end;
            result.n_iter += newton.n_iter;
            if (newton.end != BlockEnd::limit || result.n_iter == batch_.max_iter) return;
            work += step * static_cast<double>(std::max<int64_t>(newton.n_iter, 8));
        }
    }

    // Returns approximately the smallest violation that float64 can distinguish from 0.
    static double rounding(const BlockProblem<double>& block) {
        double longest = 0.0, mass = 0.0;
        for (int64_t u = 0; u < block.size; ++u) {
            const double length = std::sqrt(std::fabs(block.matrix[u * (block.stride + 1)]));
            longest = std::max(longest, length);
            mass += std::fabs(block.beta[u]) * length;
        }
        return 16.0 * kEps * (1.0 + longest * mass);
    }

    const Implementation& native_;
    const MachineBatch& batch_;
    double* workspaces_;
    MachineResult* results_;
    std::vector<int64_t> shared_offsets_;
    std::atomic<int64_t> next_{0};
    std::atomic<double> work_{0.0};
};

}  // namespace

int64_t machine_workspace(const Machine* machines, int64_t n_machines, const MatrixSizes& sizes, int n_threads) {
    return static_cast<int64_t>(kAlignment / sizeof(double)) + n_threads * workspace_size(machines, n_machines, sizes);
}

int64_t solve_machines(const Implementation& native, const MachineBatch& batch, double* workspace, int n_threads,
                       MachineResult* results) {
    return Batch(native, batch, workspace, results).run(n_threads);
}

}  // namespace mercer
