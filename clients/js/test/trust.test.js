/** Which metadata is used of which writer. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Trust } from '../src/trust.js'

const DOUBLE = { physical: 'DOUBLE', isFloat: true, isSigned: true, leaf: { ordinal: 0, order: 1, isFlat: true } }
/** @type {any} */
const INT64 = { ...DOUBLE, physical: 'INT64', isFloat: false }

/** @param {string} createdBy @param {any} type */
function trustOf(createdBy, type) {
  const footer = /** @type {any} */ ({ writers: [createdBy] })
  const { usesBounds, usesDeprecatedBounds, usesNullCounts } = new Trust(footer, type, undefined)
  assert.equal(usesBounds, usesDeprecatedBounds)
  return { bounds: usesBounds, nullCounts: usesNullCounts }
}

test('bounds of floats that leave out numbers beside NaN, and null counts', () => {
  for (const [createdBy, bounds, nullCounts] of /** @type {[string, boolean, boolean][]} */ ([
    ['parquet-mr version 1.9.0 (build 1)', false, true],
    ['parquet-mr (build 1)', false, true],
    ['parquet-mr version 1.10.0 (build 1)', true, true],
    ['parquet-mr compatible Photon version 0.2 (build 16.4)', true, true],
    ['github.com/parquet-go/parquet-go version 0.32.0(build )', false, true],
    ['parquet-go version latest', false, false],
    ['parquet-go version 18.8.0', true, true],
    ['parquet-cpp version 1.5.1-SNAPSHOT', false, true],
    ['', false, true],
    ['another', true, true],
  ])) {
    assert.deepEqual(trustOf(createdBy, DOUBLE), { bounds, nullCounts }, createdBy)
    assert.deepEqual(trustOf(createdBy, INT64), { bounds: true, nullCounts }, createdBy)
  }
})

test('metadata that the rewriter of parquet-mr has copied', () => {
  const uses = (/** @type {string[]} */ ...writers) => new Trust(/** @type {any} */ ({ writers }), DOUBLE, undefined).usesBounds
  const rewriter = 'parquet-mr version 1.18.1 (build 1)'
  assert.equal(uses(rewriter), true)
  assert.equal(uses(rewriter, 'parquet-cpp-arrow version 26.0.1'), true)
  assert.equal(uses(rewriter, 'parquet-cpp-arrow version 26.0.1', 'parquet-mr version 1.9.0'), false)
})

test('Bloom filters without the values of Arrow dictionaries', () => {
  const chunk = /** @type {any} */ ({ bloomFilter: [100, 200] })
  const uses = (/** @type {string} */ createdBy, /** @type {any} */ directory) =>
    new Trust(/** @type {any} */ ({ writers: [createdBy] }), INT64, directory).usesBloomFilter(chunk)
  assert.equal(uses('parquet-go version 18.7.0', undefined), false)
  assert.equal(uses('parquet-go version 18.7.0', { original_length: 101 }), false)
  assert.equal(uses('parquet-go version 18.7.0', { original_length: 100 }), true) // added by Intarsia
  assert.equal(uses('parquet-go version 18.8.0', undefined), true)
})

test('null counts of JSON columns', () => {
  const json = { ...INT64, physical: 'BYTE_ARRAY', logical: 'JSON' }
  assert.equal(new Trust(/** @type {any} */ ({ writers: ['hyparquet'] }), json, undefined).usesNullCounts, false)
  assert.equal(trustOf('hyparquet', INT64).nullCounts, true)
})

test('other writers', () => {
  for (const [createdBy, type, changed] of /** @type {[string, any, any][]} */ ([
    ['Polars version 1.36.1', { ...INT64, physical: 'BYTE_ARRAY', logical: 'STRING' }, { usesLowerBounds: false, usesUpperBounds: false, usesNullCounts: false, usesPageNullCounts: false }],
    ['Polars version 2.0.0', DOUBLE, { usesBounds: false, distrustsPageIndex: true }],
    ['Polars version 2.0.0', { ...INT64, physical: 'INT32', bits: 32, isSigned: false }, { usesBounds: false, usesDeprecatedBounds: false }],
    ['Polars version 0.20.0', { ...INT64, bits: 64, isSigned: false }, { usesBounds: false, usesNullCounts: false, usesPageNullCounts: false, distrustsPageIndex: true }],
    ['parquet-go version 18.0.0-SNAPSHOT', { ...INT64, isSigned: false }, { usesBounds: false, usesDeprecatedBounds: false, distrustsPageIndex: true, distrustsBloomFilters: true }],
    ['parquet-go version 18.7.0', INT64, { distrustsPageIndex: true, distrustsBloomFilters: true }],
    ['parquet-go version 18.8.0', INT64, { distrustsPageIndex: true }],
    ['QuestDB version 9.0', { ...INT64, physical: 'BYTE_ARRAY', logical: 'STRING' }, { usesNullCounts: false, usesPageNullCounts: false }],
    ['QuestDB version 9.0', INT64, {}],
    ['opteryx-rugo version 0.9.175 (build 3758)', { ...INT64, physical: 'BYTE_ARRAY' }, { distrustsPageIndex: true }],
    ['rugo version 0.5.6', { ...INT64, physical: 'BYTE_ARRAY', logical: 'STRING' }, {}],
    ['kuzu', INT64, { usesNullCounts: false }],
    ['lbug', INT64, { usesNullCounts: false }],
    ['duckdb version v1.0.0', INT64, { usesNullCounts: false }],
    ['duckdb version v1.1.0', INT64, {}],
    ['fastparquet-python version 2024.11.0', INT64, { usesBounds: false, usesDeprecatedBounds: false }],
    ['ClickHouse v25.8.2.1-lts', { ...INT64, physical: 'BYTE_ARRAY', logical: 'JSON' }, { usesBounds: false, distrustsPageIndex: true }],
    ['ClickHouse version 26.5.0', { ...INT64, physical: 'BYTE_ARRAY', logical: 'JSON' }, {}],
    ['parquet-rs version 59.3.0', { ...INT64, physical: 'BYTE_ARRAY', logical: 'DECIMAL' }, { usesBounds: false, distrustsPageIndex: true }],
    ['parquet-cpp-arrow version 10.0.1', { ...INT64, physical: 'BYTE_ARRAY', logical: 'STRING' }, { usesBounds: false, usesNullCounts: false }],
    ['parquet-cpp-velox version 0.0.0', { ...INT64, physical: 'BYTE_ARRAY', logical: 'STRING' }, {}],
    ['parquet-cpp version 1.5.1-SNAPSHOT', { ...INT64, physical: 'FIXED_LEN_BYTE_ARRAY', logical: 'DECIMAL' }, { usesBounds: false }],
  ])) {
    const of = (/** @type {string} */ name) => ({ ...new Trust(/** @type {any} */ ({ writers: [name] }), type, undefined) })
    assert.deepEqual(of(createdBy), { ...of('another'), ...changed }, createdBy)
  }
})
