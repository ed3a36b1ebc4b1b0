\d
\d+
\d app.*
\d *.p
\dS pg_class
\dS+ pg_index
\d app.p
\d+ app.p
\d p
\d+ c
\d c
\d+ v
\d v
\d+ checked
\d+ calls
\d+ mv
\d mv
\d+ s
\d s
\d small
\d+ p_like
\d p_low
\d+ p_h
\d+ p_desc
\d p_n_m_key
\d+ u
\d mood
\d pair
\d+ pair
\d "Quoted Schema"."Table 1"
\d+ "Quoted Schema".*
\d nothing
\d pg_catalog.pg_am
\d pg_tables
\d+ pg_tables
\d information_schema.tables
\da
\da+
\daS sum
\daS+ max
\dA
\dA+
\dA btree
\dA+ hash
\dAc btree int4
\dAc+ hash
\dAc+ btree text
\dAf btree
\dAf+ hash int4
\dAo btree float_ops
\dAo+ btree integer_ops
\dAp hash integer_ops
\dAp+ btree text_ops
\db
\db+
\dc
\dcS utf8_to_iso_8859_1
\dC
\dC int4
\dC+ text
\dconfig
\dconfig work_mem
\dconfig+ work_mem
\dconfig *timeout
\dd
\dd app.*
\ddp
\ddp app
\dD
\dD+
\dD app.*
\dDS+ cardinal_number
\dE
\des
\des+
\det
\det+
\deu
\deu+
\dew
\dew+
\df
\df+
\df app.*
\df+ app.*
\df app.f int
\df app.f text
\dfa
\dfn app.*
\dfp
\dft
\dfw
\dfS lower
\dfS+ abs
\dfS array_agg
\dfaS count
\dfwS rank
\dFp
\dFp+ simple
\dF
\dF+ simple
\dFd
\dFd+ simple
\dFt
\dFt+ simple
\dg
\dg+
\dg bs*
\dg+ bs*
\dgS pg_monitor
\di
\di+
\di app.*
\di+ p*
\diS pg_class_oid_index
\dis
\dit
\dl
\dl+
\dL
\dL+
\dLS internal
\dm
\dm+
\dmi
\dn
\dn+
\dn app
\dn+ "Quoted Schema"
\dnS
\dnS+ pg_catalog
\do
\do+
\doS + int4 int4
\doS+ || text
\doS ~~
\dO
\dO+
\dOS C
\dOS+ ucs_basic
\dp
\dp app.*
\dp p
\dP
\dP+
\dPi
\dPt
\drds
\drds bs_owner
\drds * test
\dRp
\dRp+
\dRs
\dRs+
\ds
\ds+
\ds app.*
\ds+ s
\dt
\dt+
\dt app.*
\dt+ *.p
\dtS pg_am
\dtv
\dtvs+
\dT
\dT+
\dT app.*
\dT+ app.*
\dTS int4
\dTS+ jsonb
\dTS timestamp*
\du
\du+
\du bs_owner
\duS pg_read_all_data
\dv
\dv+
\dv app.*
\dv+ c*
\dvS pg_tables
\dx
\dx+
\dx plpgsql
\dX
\dX+
\dy
\dy+
\sf app.one
\sf app.r
\sf+ app.f(int, text)
\sf app.t
\sf app.v
\sf lower
\sf app.f
\sv app.v
\sv+ app.v
\sv app.checked
\sv app.calls
\sv pg_tables
\sv app.p
\z
\z app.*
\z p
\l
\l test
\l+ nothing
\lo_list
\lo_list+
\encoding
select 1 as a, 'x' as b, 1.5::numeric(5,2) as c, null::app.mood as d, array[1] as e \gdesc
select * from app.p \gdesc
select 1 as r, 2 as c, 3 as v union all select 1, 3, 4 union all select 2, 2, 5 order by 1, 2 \crosstabview
select 'select ' || g || ' as gexec' from generate_series(1, 2) g \gexec
select 7 as seven, 'x y' as words \gset
\echo :seven :words
select 1 as a, 2 as b \gx
\errverbose
select 1/0;
\errverbose
\x
select id, n from app.p order by id limit 1;
\x
\if true
\echo yes
\endif
begin;
\echo :LAST_ERROR_SQLSTATE
savepoint one;
rollback;
\copy (select id, n from app.p order by id limit 2) to stdout
\copy public.plain from program 'printf "1\\tone\\n2\\ttwo\\n"'
select * from public.plain order by a;
\copy public.plain to stdout with (format csv, header)
