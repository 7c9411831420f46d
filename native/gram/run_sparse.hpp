// Evaluates tiles of CSR rows: blocks of columns, in which common features are dense, against single rows.
#pragma once

#include "gram/interpreter.hpp"
#include "gram/sparse_panels.hpp"
#include "gram/tile_sink.hpp"
#include "parallel/parallel.hpp"

namespace mercer::MERCER_ISA {

constexpr int64_t kSparseRows = 128;      // fewest rows of a task, because each task sets up its lists
constexpr int64_t kMostSparseRows = 512;  // most rows of a task: packed, they stay in the cache

template <class Real, class Stored>
struct SparseJob {
    const TileRequest& request;
    const Sink<Stored>& sink;
    const Tasks<Stored>& tasks;
    int64_t first_column, n_columns;  // of the columns now packed
    SparseBlock<Real>* blocks;
    const int32_t* places;  // place of each feature (common features first), from the table on the right
    int32_t n_common;
    const bool* chosen;  // [pass][feature]

    // Flags of the features that a pass uses; null if it uses all.
    const bool* used_features(int64_t pass) const {
        return request.program.passes[pass].columns ? chosen + pass * request.right.n_features : nullptr;
    }
};

// The norm of a row for a pass: measure<pairing>(), or 0 if the pass needs no norms.
template <class Real, class Measure>
MERCER_INLINE Real norm_for(const Pass& pass, Measure measure) {
    if (!pass.with_norms) return 0;
    Real norm = 0;
    with_pairing(pass.pairing,
                 [&]<Pairing kPairing>() MERCER_LAMBDA_INLINE { norm = measure.template operator()<kPairing>(); });
    return norm;
}

// The list heads of one thread, one for each rare feature; -1 if the feature has no list.
class Heads {
  public:
    explicit Heads(const RowsView& right)
        : memory_(sizeof(int32_t) * static_cast<std::size_t>(right.n_features + 1)), heads_(memory_.as<int32_t>()) {
        for (int64_t k = 0; k < right.n_features; ++k) heads_[k] = -1;
    }
    int32_t* get() const { return heads_; }

  private:
    Scratch memory_;
    int32_t* heads_;
};

template <class Real, class Stored>
void pack_block_task(void* context, int64_t task) {
    const auto& job = *static_cast<const SparseJob<Real, Stored>*>(context);
    const RowsView& right = job.request.right;
    const int64_t first = task * kBlockColumns<Real>;
    const int count = static_cast<int>(min64(kBlockColumns<Real>, job.n_columns - first));
    const Heads heads(right);
    SparseBlock<Real>& block = job.blocks[task];
    with_csr(right, job.places, [&](const auto& rows) {
        pack_block(rows, job.first_column + first, count, job.n_common, heads.get(), block);
        for (int q = 0; q < job.request.program.n_passes; ++q)
            for (int c = 0; c < kBlockColumns<Real>; ++c)
                block.norms[q * kBlockColumns<Real> + c] =
                    c >= count ? 0 : norm_for<Real>(job.request.program.passes[q], [&]<Pairing kPairing>() {
                        const int64_t column = job.first_column + first + c;
                        return measure_row<Real, kPairing>(rows, column, job.n_common, job.used_features(q));
                    });
    });
}

template <class Real, class Stored>
void sparse_rows_task(void* context, int64_t task) {
    constexpr int kColumns = kBlockColumns<Real>, kPanel = kPanelColumns<Real>;
    const auto& job = *static_cast<const SparseJob<Real, Stored>*>(context);
    const RowsView &left = job.request.left, &right = job.request.right;
    const int64_t first = job.tasks.first_row(task);
    const int64_t n_rows = min64(job.tasks.rows_per_task, left.count - first);
    const int32_t n_common = job.n_common;
    const Program& program = job.request.program;
    const int64_t n_passes = program.n_passes;
    int64_t room = 0;
    with_csr(left, job.places, [&](const auto& rows) {
        for (int64_t i = 0; i < n_rows; ++i) room += rows.length(first + i) + 1;
    });
    const auto n = static_cast<std::size_t>(room * n_passes), n_packed = static_cast<std::size_t>(n_rows * n_passes);
    Scratch common(n * sizeof(int32_t)), rare(n * sizeof(int32_t));
    Scratch common_values(n * sizeof(Real)), rare_values(n * sizeof(Real));
    Scratch packed_memory(sizeof(SparseRow<Real>) * n_packed), norm_memory(sizeof(Real) * n_packed);
    auto* packed = packed_memory.as<SparseRow<Real>>();  // [pass][row]
    Real* norms = norm_memory.as<Real>();
    with_csr(left, job.places, [&](const auto& rows) {
        int64_t at = 0;
        for (int64_t q = 0; q < n_passes; ++q)
            for (int64_t i = 0; i < n_rows; at += rows.length(first + i) + 1, ++i) {
                packed[q * n_rows + i] =
                    pack_row(rows, first + i, n_common, job.used_features(q), common.as<int32_t>() + at,
                             rare.as<int32_t>() + at, common_values.as<Real>() + at, rare_values.as<Real>() + at);
                norms[q * n_rows + i] = norm_for<Real>(program.passes[q], [&]<Pairing kPairing>() {
                    return measure_row<Real, kPairing>(packed[q * n_rows + i]);
                });
            }
    });
    const Heads heads(right);
    constexpr int64_t kTileSize = kRowsPerPanel * kColumns;
    Scratch tile_memory(sizeof(Real) * static_cast<std::size_t>(kMaxStack * kColumns + n_passes * kTileSize));
    Real* tiles = tile_memory.as<Real>();
    Real* stack = tiles + n_passes * kTileSize;
    int64_t longest = 0;
    for (int64_t i = 0; i < n_rows * n_passes; ++i) longest = max64(longest, packed[i].n_rare);
    Scratch match_memory(sizeof(RareMatch<Real>) * static_cast<std::size_t>(2 * (longest + 1)));
    RareMatch<Real>* matches[] = {match_memory.as<RareMatch<Real>>(), match_memory.as<RareMatch<Real>>() + longest + 1};
    Outlet<Real, Stored> outlet(job.sink, first, n_rows, job.tasks.clear_mirrored(task, job.sink, job.n_columns),
                                job.first_column, job.n_columns);
    for (int64_t b = 0; b * kColumns < job.n_columns; ++b) {
        const SparseBlock<Real>& block = job.blocks[b];
        const int64_t column = job.first_column + b * kColumns;
        const int count = static_cast<int>(min64(kColumns, job.n_columns - b * kColumns));
        const int width = static_cast<int>(divide_up(count, kLanesOf<Real>)) * kLanesOf<Real>;
        for (int32_t f = 0; f < block.n_features; ++f) heads.get()[block.features[f]] = block.starts[f];
        for (int64_t i = 0; i < n_rows; i += kRowsPerPanel) {
            const int64_t end = min64(i + kRowsPerPanel, n_rows), below = max64(0, first + i - column);
            const int skipped = job.request.symmetric ? static_cast<int>(min64(below / kPanel, kSparsePanels)) : 0;
            const int start = skipped * kPanel;
            if (start >= count) continue;
            for (int64_t q = 0; q < n_passes; ++q)
                with_pairing(program.passes[q].pairing, [&]<Pairing kPairing>() MERCER_LAMBDA_INLINE {
                    const SparseRow<Real>* group = packed + q * n_rows;
                    Real* tile = tiles + q * kTileSize;
                    for (int panel = skipped; panel * kPanel < count; ++panel)
                        add_common<Real, kPairing>(group + i, static_cast<int>(end - i),
                                                   block.common + int64_t{panel} * n_common * kPanel, n_common,
                                                   tile + panel * kPanel, kColumns);
                    int32_t n_matches = match_rare<Real>(group[i], block.entries, heads.get(), matches[0]);
                    for (int64_t r = i; r < end; ++r) {
                        RareMatch<Real>*some = matches[(r - i) % 2], *next = matches[(r - i + 1) % 2];
                        const int32_t n = n_matches;
                        if (r + 1 < end) n_matches = match_rare<Real>(group[r + 1], block.entries, heads.get(), next);
                        add_rare<Real, kPairing>(some, n, block.entries, tile + (r - i) * kColumns);
                    }
                });
            for (int64_t r = i; r < end; ++r)
                run_program<Real>(program,
                                  {norms + r, nullptr, n_rows, block.norms + start, nullptr, kColumns, nullptr}, 1,
                                  width - start, tiles + (r - i) * kColumns + start, kTileSize, stack);
            outlet.emit(tiles + start, static_cast<int>(end - i), count - start, kColumns, first + i, column + start);
        }
        for (int32_t f = 0; f < block.n_features; ++f) heads.get()[block.features[f]] = -1;
    }
    outlet.finish();
}

template <class Real, class Stored>
void run_sparse(const TileRequest& request, const Sink<Stored>& sink, const int32_t* places, int32_t n_common) {
    constexpr int kColumns = kBlockColumns<Real>;
    const RowsView& right = request.right;
    const int64_t common_size = int64_t{n_common} * kColumns, m = right.count;
    const Program& program = request.program;
    const int64_t norms_size = int64_t{program.n_passes} * kColumns;
    const int64_t block_bytes = static_cast<int64_t>(sizeof(Real)) * (common_size + norms_size);
    const int64_t most = sink.adds_mirrored(request) ? kSymmetricColumns / kColumns : m;
    const int64_t n_blocks = min64(divide_up(m, kColumns), max64(1, min64(most, kPanelBytes / block_bytes)));
    const int64_t chunk = n_blocks * kColumns;
    const Tasks<Stored> tasks(request, sink, chunk, 1, kSparseRows, kMostSparseRows);
    Scratch block_memory(sizeof(SparseBlock<Real>) * static_cast<std::size_t>(n_blocks));
    Scratch common(static_cast<std::size_t>(block_bytes * n_blocks));
    Scratch chosen_memory(static_cast<std::size_t>(program.n_passes * right.n_features));
    bool* chosen = chosen_memory.as<bool>();
    for (int q = 0; q < program.n_passes; ++q, chosen += right.n_features) {
        const Pass& pass = program.passes[q];
        for (int64_t k = 0; pass.columns && k < right.n_features; ++k) chosen[k] = false;
        for (int64_t j = 0; pass.columns && j < pass.n_columns; ++j) chosen[pass.columns[j]] = true;
    }
    for (int64_t first = 0; first < m; first += chunk) {
        SparseJob<Real, Stored> job{request,
                                    sink,
                                    tasks,
                                    first,
                                    min64(chunk, m - first),
                                    block_memory.as<SparseBlock<Real>>(),
                                    places,
                                    n_common,
                                    chosen_memory.as<bool>()};
        int64_t n_entries = 0;
        with_csr(right, places, [&](const auto& rows) {
            for (int64_t c = 0; c < job.n_columns; ++c) n_entries += rows.length(first + c);
        });
        const auto n = static_cast<std::size_t>(n_entries);
        Scratch features(n * sizeof(int32_t)), starts(n * sizeof(int32_t)), lists(2 * n * sizeof(ListEntry<Real>));
        with_csr(right, places, [&](const auto& rows) {
            for (int64_t b = 0, at = 0; b * kColumns < job.n_columns; ++b) {
                Real* dense = common.as<Real>() + b * (common_size + norms_size);
                job.blocks[b] = {dense,
                                 dense + common_size,
                                 features.as<int32_t>() + at,
                                 starts.as<int32_t>() + at,
                                 lists.as<ListEntry<Real>>() + 2 * at,
                                 0};
                for (int64_t c = b * kColumns; c < min64((b + 1) * kColumns, job.n_columns); ++c)
                    at += rows.length(first + c);
            }
        });
        parallel_for(divide_up(job.n_columns, kColumns), request.n_threads, pack_block_task<Real, Stored>, &job);
        parallel_for(tasks.count, request.n_threads, sparse_rows_task<Real, Stored>, &job);
        tasks.add_mirrored(sink, first, job.n_columns);
    }
}

}  // namespace mercer::MERCER_ISA
