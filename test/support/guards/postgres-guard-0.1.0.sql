-- What guardSql() answered in version 0.1.0, before admissions were signed. Tests upgrade it. {schema} stands for the schema.
-- The guard of Tenure. Processes that start together take turns.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('tenure guard {schema}'));

CREATE SCHEMA IF NOT EXISTS "{schema}";

-- The highest token that was admitted or raised to, by resource. It never falls and no row is ever deleted.
CREATE TABLE IF NOT EXISTS "{schema}".highest (
  resource text COLLATE "C" PRIMARY KEY,
  token numeric(39) NOT NULL CHECK (token > 0 AND token < 170141183460469231731687303715884105728)
) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION "{schema}".keep_highest() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.resource = OLD.resource AND NEW.token >= OLD.token THEN RETURN NEW; END IF;
  END IF;
  RAISE EXCEPTION 'The highest tokens of "{schema}" never fall and are never deleted: a former holder could write again.'
    USING ERRCODE = '55000', HINT = 'removeGuardSql() removes the guard as a whole.';
END $$;

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
      WHERE tgrelid = '"{schema}".highest'::regclass AND tgname = 'keep_highest') THEN
    CREATE TRIGGER keep_highest BEFORE UPDATE OR DELETE ON "{schema}".highest
      FOR EACH ROW EXECUTE FUNCTION "{schema}".keep_highest();
    CREATE TRIGGER keep_highest_truncated BEFORE TRUNCATE ON "{schema}".highest
      FOR EACH STATEMENT EXECUTE FUNCTION "{schema}".keep_highest();
  END IF;
END $$;


-- The comparison (S2). Call it in the transaction that writes, before the first write: select {schema}.admit('settlement', 4720)
-- Until the end of that transaction nobody can raise the highest above this token. Stale: SQLSTATE TN001.
CREATE OR REPLACE FUNCTION "{schema}".admit(p_resource text, p_token numeric, p_wait_ms integer DEFAULT NULL)
RETURNS numeric LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen numeric;
  usual_wait text;
  setting text;
  mine text;
BEGIN
  -- The usual case in one step: the same term again. Its writers go side by side, and whoever wants to raise waits for all
  -- of them. The lock sees the newest row, also in a repeatable read, where an older snapshot fails with 40001.
  PERFORM FROM "{schema}".highest h WHERE h.resource = p_resource AND h.token = p_token FOR SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    IF p_resource IS NULL OR p_resource = '' OR octet_length(p_resource) > 512 THEN
      RAISE EXCEPTION 'Expected a resource name of 1 to 512 bytes, got %.', coalesce(quote_literal(left(p_resource, 60)), 'null')
        USING ERRCODE = '22023';
    END IF;
    IF p_token IS NULL OR p_token <= 0 OR p_token >= 170141183460469231731687303715884105728 OR p_token <> trunc(p_token) THEN
      RAISE EXCEPTION 'Expected a fencing token (a whole number above 0, below 2^127), got %.', coalesce(p_token::text, 'null')
        USING ERRCODE = '22023';
    END IF;
    usual_wait := current_setting('lock_timeout');
    setting := set_config('lock_timeout', coalesce(p_wait_ms::text, usual_wait), true);
    LOOP
      SELECT h.token INTO seen FROM "{schema}".highest h WHERE h.resource = p_resource;
      IF seen > p_token THEN 
    RAISE EXCEPTION 'Token % for "%" is stale: % has been seen. Nothing was written.', p_token, p_resource, seen
      USING ERRCODE = 'TN001', DETAIL = format('offered %s highest %s', p_token, seen);
      ELSIF seen = p_token THEN
        -- What was read may be old by now.
        SELECT h.token INTO seen FROM "{schema}".highest h WHERE h.resource = p_resource FOR SHARE;
        EXIT WHEN seen = p_token;
      ELSE
        -- A new term: waits for every writer of the older one to commit or roll back. The WHERE repeats the rule.
        INSERT INTO "{schema}".highest AS h (resource, token) VALUES (p_resource, p_token)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE h.token < excluded.token;
        EXIT WHEN FOUND;
      END IF;
    END LOOP;
    setting := set_config('lock_timeout', usual_wait, true);
  END IF;
  -- For the triggers of protected tables. With the transaction's number, so that no later transaction can inherit it.
  mine := pg_current_xact_id()::text || ' ';
  setting := current_setting('tenure.admitted', true);
  setting := set_config('tenure.admitted', CASE
    WHEN starts_with(setting, mine)
      THEN mine || (substr(setting, length(mine) + 1)::jsonb || jsonb_build_object(p_resource, trunc(p_token)::text))::text
    -- The first of a transaction, nearly always the only one: written by hand, at half the cost.
    ELSE concat(mine, '{', to_json(p_resource), ':"', trunc(p_token), '"}') END, true);
  RETURN p_token;
END $$;


-- The trigger of protected tables: refuses every write in a transaction that was not admitted, or not any more.
CREATE OR REPLACE FUNCTION "{schema}".refuse_unadmitted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  p_resource text := TG_ARGV[0];
  admitted text := current_setting('tenure.admitted', true);
  mine text := pg_current_xact_id_if_assigned()::text || ' ';
  offered numeric;
  seen numeric;
BEGIN
  IF starts_with(admitted, mine) THEN
    offered := (substr(admitted, length(mine) + 1)::jsonb ->> p_resource)::numeric;
  END IF;
  IF offered IS NULL THEN
    RAISE EXCEPTION '%.% takes writes only from the holder of "%". Nothing was written.', TG_TABLE_SCHEMA, TG_TABLE_NAME, p_resource
      USING ERRCODE = 'TN002',
        HINT = format('Call {schema}.admit(%L, token) first, in the same transaction.', p_resource);
  END IF;
  SELECT h.token INTO seen FROM "{schema}".highest h WHERE h.resource = p_resource FOR SHARE;
  IF seen IS DISTINCT FROM offered THEN 
    RAISE EXCEPTION 'Token % for "%" is stale: % has been seen. Nothing was written.', offered, p_resource, seen
      USING ERRCODE = 'TN001', DETAIL = format('offered %s highest %s', offered, seen);
  END IF;
  RETURN NULL;
END $$;

-- Protects a table and its partitions: select {schema}.protect('public.settlement', 'settlement'). For the table's owner.
CREATE OR REPLACE FUNCTION "{schema}".protect(p_table regclass, p_resource text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part record;
BEGIN
  IF p_resource IS NULL OR p_resource = '' OR octet_length(p_resource) > 512 THEN
    RAISE EXCEPTION 'Expected a resource name of 1 to 512 bytes.' USING ERRCODE = '22023';
  END IF;
  -- Children of plain inheritance too: a statement's triggers are those of the table it names.
  FOR part IN
    WITH RECURSIVE family AS (
      SELECT p_table::oid AS id UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.id)
    SELECT c.oid AS id, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind
    FROM family f JOIN pg_class c ON c.oid = f.id JOIN pg_namespace n ON n.oid = c.relnamespace
  LOOP
    IF part.kind NOT IN ('r', 'p') OR part.schema IN ('pg_catalog', '{schema}') THEN
      RAISE EXCEPTION '%.% is not a table that can be protected.', part.schema, part.name USING ERRCODE = '42809';
    END IF;
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = part.id AND t.tgname = 'tenure_guard') THEN
      RAISE EXCEPTION '%.% is protected already.', part.schema, part.name USING ERRCODE = '42710';
    END IF;
    EXECUTE format('CREATE TRIGGER tenure_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %I.%I '
      'FOR EACH STATEMENT EXECUTE FUNCTION "{schema}".refuse_unadmitted(%L)', part.schema, part.name, p_resource);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION "{schema}".unprotect(p_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part record;
  found_any boolean := false;
BEGIN
  FOR part IN
    WITH RECURSIVE family AS (
      SELECT p_table::oid AS id UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.id)
    SELECT n.nspname AS schema, c.relname AS name
    FROM family f JOIN pg_class c ON c.oid = f.id JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'tenure_guard'
  LOOP
    found_any := true;
    EXECUTE format('DROP TRIGGER tenure_guard ON %I.%I', part.schema, part.name);
  END LOOP;
  IF NOT found_any THEN
    RAISE EXCEPTION '% is not protected.', p_table USING ERRCODE = '42704';
  END IF;
END $$;


REVOKE ALL ON "{schema}".highest FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "{schema}" FROM PUBLIC;
