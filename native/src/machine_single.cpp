#include "mercer/machine_single.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "mercer/block.hpp"
#include "mercer/conditions.hpp"

namespace mercer {
namespace {

constexpr double kMostWork = 1e8;  // steps times variables: 50 ms or so, then the caller goes on
constexpr double kEnd = 0.5;       // of the tolerance, for rounding is yet to come

std::size_t at(int64_t u) { return static_cast<std::size_t>(u); }

// values = K beta, by tiles in double precision: of what is between support vectors, half is evaluated. Returns how
// many values were asked for.
int64_t multiply(const Implementation& native, const MachineProblem& p) {
    struct Side {
        std::vector<int64_t> variables, rows;
    } support, others;
    std::vector<double> weights;
    for (int64_t u = 0; u < p.size(); ++u) {
        Side& side = p.beta[u] != 0.0 ? support : others;
        side.variables.push_back(u), side.rows.push_back(p.kernel.left.rows[u]);
        if (p.beta[u] != 0.0) weights.push_back(p.beta[u]);
    }
    const auto n_support = static_cast<int64_t>(support.rows.size());
    for (const Side* side : {&support, &others}) {
        std::vector<double> sums(side->rows.size(), 0.0);
        TileRequest request = p.kernel;
        request.left.rows = side->rows.data(), request.left.count = static_cast<int64_t>(side->rows.size());
        request.right.rows = support.rows.data(), request.right.count = n_support;
        request.symmetric = side == &support;
        native.matvec(request, weights.data(), 1, sums.data());
        for (std::size_t k = 0; k < sums.size(); ++k) p.values[side->variables[k]] = sums[k];
    }
    return p.size() * n_support;
}

}  // namespace

MachineEnd machine_in_single(const Implementation& native, const MachineProblem& p, const MachineLimits& limits,
                             double* workspace) {
    const int64_t size = p.size(), stride = padded(size);
    auto* matrix = reinterpret_cast<float*>(workspace);
    TileRequest square = p.kernel;
    square.symmetric = true;
    native.block_single(square, matrix, stride);
    for (int64_t u = 0; u < size; ++u) std::fill(matrix + u * stride + size, matrix + (u + 1) * stride, 0.0F);
    int64_t n_values = size * size;
    std::vector<double> gradient(p.linear, p.linear + size);
    if (std::any_of(p.beta, p.beta + size, [](double beta) { return beta != 0.0; })) {
        n_values += multiply(native, p);
        for (int64_t u = 0; u < size; ++u) gradient[at(u)] += p.values[u];
    }

    const int64_t edges[2] = {0, size};
    const BlockProblem<float> block{size,
                                    matrix,
                                    stride,
                                    p.beta,
                                    gradient.data(),
                                    p.lower,
                                    p.upper,
                                    edges,
                                    p.grouped ? 1 : 0,
                                    p.kernel.n_threads,
                                    limits.stop,
                                    limits.stop_context};
    BlockLimits ends{};
    ends.tol = ends.newton_tol = kEnd * limits.tol;
    ends.violation = BlockLimits::kInfinity, ends.largest = p.largest;
    ends.convex = true, ends.drags = false;
    ends.most_free = ends.most_close = kFewFree;
    Block<float> steps(native, block, ends);
    const auto may_go_on = [&] {
        const bool stopped = steps.is_stopped() || (limits.stop != nullptr && limits.stop(limits.stop_context));
        return !stopped && steps.work() < kMostWork;
    };
    while (!steps.is_finished() && may_go_on())
        steps.step(limits.max_iter < 0 ? std::numeric_limits<int64_t>::max() : limits.max_iter - steps.n_iter());
    const bool limited = !steps.is_finished() || steps.n_iter() == limits.max_iter;

    if (p.grouped) balance(size, p.beta, find_sum(size, p.start), p.lower, p.upper);
    n_values += multiply(native, p);
    return {limited ? BlockEnd::limit : BlockEnd::solved, steps.n_iter(), n_values, steps.newton_free()};
}

}  // namespace mercer
