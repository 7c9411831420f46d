// Evaluates tiles of rows of bits, in double precision.
#pragma once

#include "gram/bit_tile.hpp"
#include "gram/interpreter.hpp"
#include "gram/tile_sink.hpp"
#include "parallel/parallel.hpp"

namespace mercer::MERCER_ISA {

constexpr int kBitColumns = kTileColumns<double>;

// Packs `count` <= Width rows as packed[word][row]. Rows of zeros fill up to Width.
template <int Width>
void pack_bits(const RowsView& view, int64_t first, int count, uint64_t* packed) {
    const int64_t n_words = view.bits.n_words;
    for (int r = 0; r < Width; ++r) {
        const int64_t row = r >= count ? 0 : view.row(first + r);
        const uint64_t* words = view.bits.words + row * n_words;
        for (int64_t k = 0; k < n_words; ++k) packed[k * Width + r] = r < count ? words[k] : 0;
    }
}

// counts[r] = the number of one bits of packed row r.
template <int Width>
void count_bits(const uint64_t* packed, int64_t n_words, double* counts) {
    for (int r = 0; r < Width; ++r) {
        int64_t count = 0;
        for (int64_t k = 0; k < n_words; ++k) count += __builtin_popcountll(packed[k * Width + r]);
        counts[r] = static_cast<double>(count);
    }
}

template <class Stored>
struct BitJob {
    const TileRequest& request;
    const Sink<Stored>& sink;
    const Tasks<Stored>& tasks;
    int64_t first_column, n_columns;  // of the columns now packed
    uint64_t* panels;
    double* counts;  // of the one bits of each packed column
    const double* powers;
    int n_digits;    // 0: the program is not a Gaussian kernel, and is run on the numbers of common bits
    int64_t groups;  // number of row groups (kTileRows rows each) that are packed at a time
};

template <class Stored>
void pack_bits_task(void* context, int64_t panel) {
    const auto& job = *static_cast<const BitJob<Stored>*>(context);
    const int64_t first = panel * kBitColumns;
    const int64_t n_words = job.request.right.bits.n_words;
    pack_bits<kBitColumns>(job.request.right, job.first_column + first,
                           static_cast<int>(min64(kBitColumns, job.n_columns - first)), job.panels + first * n_words);
    if (job.n_digits == 0) count_bits<kBitColumns>(job.panels + first * n_words, n_words, job.counts + first);
}

// Value of a common bit in a pass, and of a bit in the norm of a row (see feature_sums.hpp).
inline double bit_value(Pairing pairing, double step) {
    if (pairing == Pairing::product) return step * step;
    return pairing == Pairing::hamming ? 1.0 : step;
}

// Runs the program on the numbers of common bits in the first tile of `tiles`. All sums over two rows of bits follow
// from this number and from the number of bits of each row: <x, z> = step^2 common, sum min(x, z) = step common, and
// distances are norm + norm - 2 shared.
template <class Stored>
void program_tile(const BitJob<Stored>& job, const double* left_counts, const double* right_counts, double* tiles) {
    constexpr int kTileSize = kTileRows * kBitColumns;
    const Program& program = job.request.program;
    const int n_passes = program.n_passes;
    double* left_norms = tiles + (n_passes + kMaxStack) * kTileSize;
    double* right_norms = left_norms + n_passes * kTileRows;
    for (int q = n_passes - 1; q >= 0; --q) {  // the first tile is overwritten last
        const Pairing pairing = program.passes[q].pairing;
        const double value = bit_value(pairing, job.request.left.bits.step),
                     shared = pairing == Pairing::sum ? 0.0 : value;
        for (int r = 0; r < kTileRows; ++r) left_norms[q * kTileRows + r] = value * left_counts[r];
        for (int c = 0; c < kBitColumns; ++c) right_norms[q * kBitColumns + c] = value * right_counts[c];
        double* tile = tiles + q * kTileSize;
        for (int i = 0; i < kTileSize; i += kLanes) store(tile + i, shared * load(tiles + i));
    }
    run_program<double>(program, {left_norms, nullptr, kTileRows, right_norms, nullptr, kBitColumns, nullptr},
                        kTileRows, kBitColumns, tiles, kTileSize, tiles + n_passes * kTileSize);
}

template <class Stored>
void bit_rows(const BitJob<Stored>& job, int64_t first_row, int64_t last_row, uint64_t* packed, double* tiles,
              Outlet<double, Stored>& outlet) {
    const RowsView& left = job.request.left;
    const int64_t n_words = left.bits.n_words, group_size = kTileRows * n_words;
    const int64_t n_groups = divide_up(last_row - first_row, kTileRows);
    auto rows_of = [&](int64_t g) { return static_cast<int>(min64(kTileRows, last_row - first_row - g * kTileRows)); };
    for (int64_t g = 0; g < n_groups; ++g)
        pack_bits<kTileRows>(left, first_row + g * kTileRows, rows_of(g), packed + g * group_size);
    double counts[kMaxGroups * kTileRows];
    for (int64_t g = 0; g < n_groups && job.n_digits == 0; ++g)
        count_bits<kTileRows>(packed + g * group_size, n_words, counts + g * kTileRows);
    for (int64_t column = 0; column < job.n_columns; column += kBitColumns)
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t row = first_row + g * kTileRows;
            if (job.request.symmetric && job.first_column + column + kBitColumns <= row) continue;
            job.request.bit_tile(packed + g * group_size, job.panels + column * n_words, n_words, job.powers,
                                 job.n_digits, tiles);
            if (job.n_digits == 0) program_tile(job, counts + g * kTileRows, job.counts + column, tiles);
            outlet.emit(tiles, rows_of(g), static_cast<int>(min64(kBitColumns, job.n_columns - column)), kBitColumns,
                        row, job.first_column + column);
        }
}

template <class Stored>
void bit_rows_task(void* context, int64_t task) {
    const auto& job = *static_cast<const BitJob<Stored>*>(context);
    const int64_t first = job.tasks.first_row(task), at_a_time = job.groups * kTileRows;
    const int64_t last = min64(first + job.tasks.rows_per_task, job.request.left.count);
    Outlet<double, Stored> outlet(job.sink, first, last - first,
                                  job.tasks.clear_mirrored(task, job.sink, job.n_columns), job.first_column,
                                  job.n_columns);
    const int64_t n_passes = job.request.program.n_passes;
    Scratch packed(sizeof(uint64_t) * static_cast<std::size_t>(at_a_time * job.request.left.bits.n_words));
    Scratch tiles(sizeof(double) * static_cast<std::size_t>((n_passes + kMaxStack) * kTileRows * kBitColumns +
                                                            n_passes * (kTileRows + kBitColumns)));
    for (int64_t row = first; row < last; row += at_a_time)
        bit_rows(job, row, min64(row + at_a_time, last), packed.as<uint64_t>(), tiles.as<double>(), outlet);
    outlet.finish();
}

// Fills powers[d][digit] = exp(scale step^2 digit 16^d), the factors of a kernel value for each hexadecimal digit of
// the Hamming distance. Returns the number of digits; 0 for other programs than exp(scale ||x - z||^2).
inline int powers_of(const TileRequest& request, double* powers) {
    const Program& program = request.program;
    if (program.length != 3 || !program.is_gaussian_at(0) || program.ops[0] != Op::sqdist) return 0;
    const double step = request.left.bits.step, scale = program.arguments[1] * (step * step);
    int n_digits = 0;
    for (int64_t unit = 1; unit <= request.left.n_features; unit *= 16, ++n_digits)
        for (int digit = 0; digit < 16; ++digit)
            powers[16 * n_digits + digit] = digit == 0 ? 1.0 : __builtin_exp(scale * static_cast<double>(unit * digit));
    return n_digits;
}

template <class Stored>
void run_bits(const TileRequest& request, const Sink<Stored>& sink) {
    const int64_t m = request.right.count, n_words = request.right.bits.n_words;
    const int64_t near = kPanelBytes / (static_cast<int64_t>(sizeof(uint64_t)) * n_words);
    const int64_t most = sink.adds_mirrored(request) ? min64(near, kSymmetricColumns) : near;
    const int64_t chunk = min64(divide_up(m, kBitColumns), max64(1, most / kBitColumns)) * kBitColumns;
    const int64_t groups = sink.stored == nullptr ? kMaxGroups : kStoredGroups;
    double powers[16 * kMostDigits];
    const int n_digits = powers_of(request, powers);
    Scratch panels(sizeof(uint64_t) * static_cast<std::size_t>(chunk * n_words));
    Scratch counts(sizeof(double) * static_cast<std::size_t>(n_digits == 0 ? chunk : 0));
    const Tasks<Stored> tasks(request, sink, chunk, kTileRows, kTileRows, groups * kTileRows);
    for (int64_t first = 0; first < m; first += chunk) {
        BitJob<Stored> job{
            request, sink,     tasks, first, min64(chunk, m - first), panels.as<uint64_t>(), counts.as<double>(),
            powers,  n_digits, groups};
        const int packers = job.n_columns * n_words < kPackedAlone ? 1 : request.n_threads;
        parallel_for(divide_up(job.n_columns, kBitColumns), packers, pack_bits_task<Stored>, &job);
        parallel_for(tasks.count, request.n_threads, bit_rows_task<Stored>, &job);
        tasks.add_mirrored(sink, first, job.n_columns);
    }
}

}  // namespace mercer::MERCER_ISA
