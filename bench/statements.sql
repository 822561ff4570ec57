-- SPDX-License-Identifier: Apache-2.0
-- Workload of sqlite3 for tools/try-aarch64 --long: some 900,000 allocations.
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
insert into t select i, 'row ' || (i * 7919 % 30011), i / 3.0 from n;
create index by_b on t(b);
create index by_c on t(c);
select count(*), length(group_concat(hex(randomblob(a % 50)), a)) from t;
select sum(length(json_object('a', a, 'b', b, 'c', json_array(a, b, c)))) from t;
select sum(length(printf('%s-%d-%g', upper(b), a, c))) from t;
select sum(length(replace(b, 'o', 'oo')) + length(substr(b, 2)) + length(trim(b, 'r'))) from t;
select sum(json_extract(json_object('x', a, 'y', b), '$.x')) from t;
select count(distinct b), min(b), max(b) from t;
select sum(n) from (select b, count(*) n from t group by b order by n desc);
delete from t where a % 3 = 0;
