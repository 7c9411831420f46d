// The Gram matrix of a wide table, threads share the blocks of one matrix.
#pragma once

#include "parallel/parallel.hpp"
#include "rows/gram.hpp"
#include "rows/mirror.hpp"

namespace mercer::MERCER_ISA {

// The Gram matrix of a wide table: rows are packed by all threads, and then each thread adds panels of the matrix.
template <class Rows>
struct WideJob {
    const Rows& rows;
    PackedRows& packed;
    double* gram;
    RowList list;
    bool in_range;
};

constexpr int64_t kPackedPerTask = 32;

template <class Rows>
void pack_task(void* context, int64_t task) {
    auto& job = *static_cast<WideJob<Rows>*>(context);
    const int64_t begin = task * kPackedPerTask, count = job.list.count,
                  end = begin + kPackedPerTask < count ? begin + kPackedPerTask : count;
    if (!job.packed.pack(job.rows, job.list, begin, end)) __atomic_store_n(&job.in_range, false, __ATOMIC_RELAXED);
}

template <class Rows>
void panel_task(void* context, int64_t panel) {
    const auto& job = *static_cast<const WideJob<Rows>*>(context);
    job.packed.add_panel(panel, job.list, job.gram);
}

template <class Rows>
bool add_wide_gram(const Rows& rows, const WeightedSums& request, int n_threads) {
    const LinearTable& table = request.table;
    PackedRows packed(table, request.scales, kMostPackedRows);
    const int64_t width = packed.width;
    Scratch memory(sizeof(double) * static_cast<std::size_t>(width * width));
    WideJob<Rows> job{rows, packed, memory.as<double>(), {nullptr, 0, {nullptr, 0}, 1.0}, true};
    for (int64_t s = 0; s < width * width; ++s) job.gram[s] = 0.0;
    int64_t waiting[2][kMostPackedRows], n_waiting[2] = {};  // of positive and of negative weights
    auto add_waiting = [&](int sign) {
        job.list = {waiting[sign], n_waiting[sign], {request.gram_weights, 0}, sign ? -1.0 : 1.0};
        parallel_for((job.list.count + kPackedPerTask - 1) / kPackedPerTask, n_threads, pack_task<Rows>, &job);
        if (job.list.count > 0) parallel_for(width / kPanel, n_threads, panel_task<Rows>, &job);
        n_waiting[sign] = 0;
    };
    for (int64_t i = 0; i < table.n_rows && job.in_range; ++i) {
        const int sign = request.gram_weights[i] < 0.0;
        waiting[sign][n_waiting[sign]] = i;
        n_waiting[sign] += request.gram_weights[i] != 0.0;
        if (n_waiting[sign] == kMostPackedRows) add_waiting(sign);
    }
    add_waiting(0), add_waiting(1);
    if (!job.in_range) return false;
    add_mirrored({request.gram, table.width(), job.gram, 1, 0, width}, n_threads);
    return true;
}

}  // namespace mercer::MERCER_ISA
