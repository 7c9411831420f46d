// Rows of letters and tables of all words: numbers of rows to their words, and sums over the words of a row.
#pragma once

#include <cstdint>

namespace mercer {

// Letters of all rows; a word with a letter that is not one of 0, ..., n_letters - 1 does not count.
struct LetterRows {
    const int32_t* letters;
    const int64_t* starts;        // row i is letters[starts[i]] .. letters[starts[i + 1] - 1]
    const double* place_weights;  // of the word that begins at a letter, or null if all words count once
    int64_t length, n_letters;    // of the words
};

// table[u] += coefficients[i] for each word u of each row i = first .. last - 1.
void add_to_words(const LetterRows&, int64_t first, int64_t last, const double* coefficients, double* table);

// sums[i] = the sum of table[u] over the words u of row i, for i = first .. last - 1.
void sum_over_words(const LetterRows&, int64_t first, int64_t last, const double* table, double* sums, int n_threads);

}  // namespace mercer
