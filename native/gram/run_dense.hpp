// Evaluates tiles of dense rows: panels of packed columns against groups of packed rows.
#pragma once

#include "gram/dense_panels.hpp"
#include "gram/interpreter.hpp"
#include "gram/tile_sink.hpp"
#include "parallel/parallel.hpp"

namespace mercer::MERCER_ISA {

constexpr int64_t kLeftBytes = 192 << 10;  // bytes of packed rows that a thread handles at a time

// Panels of rows as floating-point numbers. IntegerPanels (integer_panels.hpp) are panels of integers.
template <class Real>
struct NumberPanels {
    using Unit = Real;

    // Number of units in a packed row.
    static int64_t size(const RowsView& rows) { return rows.n_features; }

    template <int Width>
    static void pack(const TileRequest& request, bool is_left, int64_t first, int count, const double* centre_norms,
                     Real* packed, Real* norms, Real* offsets, int64_t stride) {
        pack_dense<Real, Width>(is_left ? request.left : request.right, first, count, request.centre, centre_norms,
                                request.program, packed, norms, offsets, stride);
    }

    static void tile(const TileRequest& request, const Pass& pass, const Real* left, const Real* right, Real* tile) {
        pair_tile_of<Real>(pass, left, right, request.left.n_features, tile);
    }
};

template <class Panels, class Real, class Stored>
struct DenseJob {
    const TileRequest& request;
    const Sink<Stored>& sink;
    const Tasks<Stored>& tasks;
    const double* centre_norms;       // of each pass
    int64_t first_column, n_columns;  // of the columns now packed
    typename Panels::Unit* panels;
    Real *norms, *offsets;
    int64_t stride;  // distance between the norms (and offsets) of two passes
    int64_t groups;  // number of row groups (kTileRows rows each) that are packed at a time
};

template <class Panels, class Real, class Stored>
void pack_panel_task(void* context, int64_t panel) {
    constexpr int kColumns = kTileColumns<Real>;
    const auto& job = *static_cast<const DenseJob<Panels, Real, Stored>*>(context);
    const int64_t row_size = Panels::size(job.request.right), first = panel * kColumns;
    const int count = static_cast<int>(min64(kColumns, job.n_columns - first));
    Panels::template pack<kColumns>(job.request, false, job.first_column + first, count, job.centre_norms,
                                    job.panels + first * row_size, job.norms + first, job.offsets + first, job.stride);
}

template <class Panels, class Real, class Stored>
void dense_rows(const DenseJob<Panels, Real, Stored>& job, int64_t first_row, int64_t last_row,
                Outlet<Real, Stored>& outlet) {
    using Unit = typename Panels::Unit;
    constexpr int kColumns = kTileColumns<Real>, kTileSize = kTileRows * kColumns;
    const RowsView& left = job.request.left;
    const Program& program = job.request.program;
    const int64_t row_size = Panels::size(left), n_groups = divide_up(last_row - first_row, kTileRows);
    const int64_t n_rows = n_groups * kTileRows, n_passes = program.n_passes;
    const bool centred = job.request.centre != nullptr;
    Scratch packed_memory(sizeof(Unit) * static_cast<std::size_t>(n_rows * row_size));
    Scratch scratch(sizeof(Real) *
                    static_cast<std::size_t>(n_rows * 2 * n_passes + (kMaxStack + n_passes) * kTileSize));
    Unit* packed = packed_memory.as<Unit>();
    Real* norms = scratch.as<Real>();
    Real* offsets = norms + n_rows * n_passes;
    Real* tiles = offsets + n_rows * n_passes;
    for (int64_t g = 0; g < n_groups; ++g) {
        const int64_t row = first_row + g * kTileRows;
        Panels::template pack<kTileRows>(job.request, true, row, static_cast<int>(min64(kTileRows, last_row - row)),
                                         job.centre_norms, packed + g * kTileRows * row_size, norms + g * kTileRows,
                                         offsets + g * kTileRows, n_rows);
    }
    for (int64_t panel = 0; panel * kColumns < job.n_columns; ++panel) {
        const int64_t column = panel * kColumns;
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t row = first_row + g * kTileRows;
            if (job.request.symmetric && job.first_column + column + kColumns <= row) continue;
            for (int q = 0; q < program.n_passes; ++q)
                Panels::tile(job.request, program.passes[q], packed + g * kTileRows * row_size,
                             job.panels + column * row_size, tiles + q * kTileSize);
            run_program<Real>(
                program,
                {norms + g * kTileRows, centred ? offsets + g * kTileRows : nullptr, n_rows, job.norms + column,
                 centred ? job.offsets + column : nullptr, job.stride, job.centre_norms},
                kTileRows, kColumns, tiles, kTileSize, tiles + n_passes * kTileSize);
            outlet.emit(tiles, static_cast<int>(min64(kTileRows, last_row - row)),
                        static_cast<int>(min64(kColumns, job.n_columns - column)), kColumns, row,
                        job.first_column + column);
        }
    }
}

template <class Panels, class Real, class Stored>
void dense_rows_task(void* context, int64_t task) {
    const auto& job = *static_cast<const DenseJob<Panels, Real, Stored>*>(context);
    const int64_t first = job.tasks.first_row(task);
    const int64_t last = min64(first + job.tasks.rows_per_task, job.request.left.count);
    Outlet<Real, Stored> outlet(job.sink, first, last - first, job.tasks.clear_mirrored(task, job.sink, job.n_columns),
                                job.first_column, job.n_columns);
    for (int64_t row = first; row < last; row += job.groups * kTileRows)
        dense_rows(job, row, min64(row + job.groups * kTileRows, last), outlet);
    outlet.finish();
}

template <class Panels, class Real, class Stored>
void run_dense(const TileRequest& request, const Sink<Stored>& sink) {
    using Unit = typename Panels::Unit;
    constexpr int kColumns = kTileColumns<Real>;
    const Program& program = request.program;
    const int64_t p = request.right.n_features, m = request.right.count, n_passes = program.n_passes;
    Scratch centre_memory(sizeof(double) * static_cast<std::size_t>(n_passes));
    double* centre_norms = centre_memory.as<double>();
    for (int q = 0; q < n_passes; ++q) {
        const Pass& pass = program.passes[q];
        centre_norms[q] = 0.0;
        for (int64_t j = 0; request.centre && pass.with_offsets && j < (pass.columns ? pass.n_columns : p); ++j) {
            const double value = request.centre[pass.columns ? pass.columns[j] : j];
            centre_norms[q] += value * value;
        }
    }
    const int64_t row_size = Panels::size(request.right),
                  row_bytes = static_cast<int64_t>(sizeof(Unit)) * max64(row_size, 1);
    const int64_t near = kPanelBytes / row_bytes;
    const int64_t most = sink.adds_mirrored(request) ? min64(near, kSymmetricColumns) : near;
    const int64_t chunk = min64(divide_up(m, kColumns), max64(1, most / kColumns)) * kColumns;
    const int64_t most_groups = sink.stored == nullptr ? kMaxGroups : kStoredGroups;
    const int64_t groups = min64(most_groups, max64(1, kLeftBytes / (row_bytes * kTileRows)));
    Scratch panels(sizeof(Unit) * static_cast<std::size_t>(chunk * row_size));
    Scratch sides(sizeof(Real) * static_cast<std::size_t>(chunk * 2 * n_passes));
    const Tasks<Stored> tasks(request, sink, chunk, kTileRows, kTileRows, groups * kTileRows);
    for (int64_t first = 0; first < m; first += chunk) {
        DenseJob<Panels, Real, Stored> job{request,
                                           sink,
                                           tasks,
                                           centre_norms,
                                           first,
                                           min64(chunk, m - first),
                                           panels.as<Unit>(),
                                           sides.as<Real>(),
                                           sides.as<Real>() + chunk * n_passes,
                                           chunk,
                                           groups};
        const int packers = job.n_columns * row_size < kPackedAlone ? 1 : request.n_threads;
        parallel_for(divide_up(job.n_columns, kColumns), packers, pack_panel_task<Panels, Real, Stored>, &job);
        parallel_for(tasks.count, request.n_threads, dense_rows_task<Panels, Real, Stored>, &job);
        tasks.add_mirrored(sink, first, job.n_columns);
    }
}

}  // namespace mercer::MERCER_ISA
