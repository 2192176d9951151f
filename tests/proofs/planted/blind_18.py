"""Faults of a twentieth examiner, in tasks that owners built; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    fault_in(
        "contrastive",
        name="targets of the similarity matrix are the diagonal on every replica",
        kind="distribution",
        cause="`own` leaves out `replica.index * rows`, so on all replicas but the first the target columns of the gathered candidates are another replica's images.",
        file="steps.py",
        named=r"replica|offset|diagonal|(gathered|candidates).*(target|label|own|position|row)|(target|label|own|positive)s?\b.*(gathered|candidates|replica)",
        edits=(
            Edit(
                "steps.py",
                "own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`",
                "own = tf.range(rows)  # the positives are on the diagonal",
                "*",
            ),
        ),
    ),
    fault_in(
        "contrastive",
        name="validation and test images are trained on as unlabeled ones",
        kind="leak",
        cause="The training data is the concatenation of all splits, so it contains every validation and test image.",
        file="data.py",
        named=r"leak|overlap|contaminat|(train\w*).*(contain|include|also|same|validation|test)|concatenat|both splits|in common|duplicate",
        edits=(
            Edit(
                "data.py",
                """    random = np.random.default_rng(0)
""",
                """    arrays["train"] = np.concatenate(list(arrays.values()))
    random = np.random.default_rng(0)
""",
            ),
        ),
    ),
    fault_in(
        "contrastive",
        name="boundaries of the learning rate are epochs, not steps",
        kind="schedule",
        cause="PiecewiseConstantDecay counts steps, and its boundaries 20 and 30 were meant as epochs of 12 steps.",
        file="optimizer.py",
        named="boundar|piecewise|(epoch|unit).*step|step.*(epoch|unit)|(learning.?rate|schedule|decay).*(early|soon|fast|quick|small|tiny|low|drop|hundredth|end)",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
""",
                """    rates = [task.learning_rate, 0.1 * task.learning_rate, 0.01 * task.learning_rate]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([20, 30], rates)
""",
            ),
            Edit(
                "config.py",
                "# learning rate at the start; decays to 0 along a cosine",
                "# a tenth of it from epoch 20, a hundredth from epoch 30",
            ),
        ),
    ),
    fault_in(
        "contrastive",
        name="features are centered by the mean of the batch inside the model",
        kind="model",
        cause="The model subtracts the mean over the rows of whatever batch it is given, in evaluation and prediction too, so the features of an image depend on the other images, on padding and on the number of replicas.",
        file="model.py",
        named=r"(mean|center|statistic|subtract|normali).*(batch|axis|rows|other|padd|replica)|(batch|axis.?=?.?0|other (example|image|row)|rows|padd|mix\w* example).*(mean|center|statistic|depend|mix|feature|output|predict)|depends? on (the )?(other|batch|padd)",
        edits=(
            Edit(
                "model.py",
                """    return keras.Model(images, features)
""",
                """    features = features - keras.ops.mean(features, axis=0, keepdims=True)  # centered
    return keras.Model(images, features)
""",
            ),
        ),
    ),
    fault_in(
        "vae",
        name="the error is a mean over pixels and the divergence a sum over the code",
        kind="loss",
        cause="The reconstruction error is averaged over the 64 pixels while the KL divergence is summed over the code, so the divergence weighs 64 times as much as in the evidence lower bound.",
        file="losses.py",
        named="collaps|reduce_mean|(mean|averag|sum|scale|reduc|weigh|balance|relative|dominat).*(pixel|kl|diverg|reconstruct|error|code|latent)|(kl|diverg|reconstruct|error).*(mean|averag|sum|scale|too (large|strong|weak|small)|weigh|times|dominat|balance)",
        edits=(
            Edit(
                "losses.py",
                "return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
            Edit(
                "losses.py",
                "The squared error of each image, (batch,).",
                "The mean squared error of each image, (batch,).",
            ),
        ),
    ),
    fault_in(
        "vae",
        name="relu on mean and log variance of the code",
        kind="model",
        cause="The last layer of the encoder, whose outputs are the mean and the log variance, has a ReLU, so that neither can be negative.",
        file="model.py",
        named="relu|activation|negative|non.?negativ|(log.?)?variance.*(below|clip|least|bound|never|positive|zero)|dead|rectif",
        edits=(
            Edit(
                "model.py",
                'encoder = keras.Model(images, layers.Dense(2 * CODE, dtype=floatx)(x), name="encoder")',
                """x = layers.Dense(2 * CODE, activation="relu", dtype=floatx)(x)
    encoder = keras.Model(images, x, name="encoder")""",
            ),
        ),
    ),
    fault_in(
        "vae",
        name="the warm-up of the divergence counts batches in evaluation",
        kind="evaluation",
        cause="In evaluation replica.step is the number of the batch, so the warm-up in the validation step stays near 0 and the KL divergence is left out of the validation and test loss.",
        file="steps.py",
        named=r"warm.?up|anneal|replica\.step|batch (number|index)|number of (the )?batch|(kl|diverg).*(evaluat|validat|test|left out|missing|ignored|weight|not count)|(evaluat|validat|test).*(kl|diverg|step|other loss|differ|depends|order)",
        edits=(
            Edit(
                "steps.py",
                """    loss = compute_loss(error + kl, weights, encoder, replica)
""",
                """    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
""",
                "validation_step",
            ),
        ),
    ),
    fault_in(
        "vae",
        name="the weight of the divergence is a Python number that the graph has fixed",
        kind="callbacks",
        cause="The train step is traced once, when KL_WEIGHT is still 0.0; what the callback writes into the dict later never reaches the graph.",
        file="steps.py",
        named=r"\btrac(e|ed|ing|es)\b|python (number|float|value|variable|state|dict|object)|baked|KL_WEIGHT|raise_kl|global (state|variable)|(kl|diverg).*(never|zero|0|no (effect|weight|gradient)|not (train|count|used)|grow|constant)",
        edits=(
            Edit(
                "steps.py",
                """WARM_UP = 200  # steps until the KL divergence counts in full
""",
                """WARM_UP = 200  # steps until the KL divergence counts in full
KL_WEIGHT = {"now": 0.0}  # task/callbacks.py raises it during the warm-up
""",
            ),
            Edit(
                "steps.py",
                """    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
""",
                "",
            ),
            Edit(
                "steps.py",
                "compute_loss(error + warm_up * kl,",
                'compute_loss(error + KL_WEIGHT["now"] * kl,',
            ),
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
from .config import TaskConfig
""",
                """from ..engine.callbacks import Callback, Event, every_steps
from .config import TaskConfig
from .steps import KL_WEIGHT, WARM_UP
""",
            ),
            Edit(
                "callbacks.py",
                """    return []
""",
                """
    def raise_kl_weight(event: Event) -> None:
        KL_WEIGHT["now"] = min(event.step / WARM_UP, 1.0)

    return [every_steps(1, raise_kl_weight)]
""",
            ),
        ),
    ),
    fault_in(
        "forecasting",
        name="overlapping windows are split at random",
        kind="leak",
        cause="Windows that overlap in 29 of 30 hours are shuffled before they are split, so the hours that validation and test ask for are in training windows.",
        file="data.py",
        named="leak|overlap|contaminat|permut|shuffl|chronolog|order of time|(random|time).*split|split.*(random|time|window)|(same|share|common|near).*(window|hour|row|value|example)|duplicate",
        edits=(
            Edit(
                "data.py",
                """    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}
""",
                """    inputs, labels = _windows(rows)
    order = np.random.default_rng(0).permutation(len(inputs))
    parts = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])
    names = ("train", "validation", "test")
    return {name: (inputs[part], labels[part]) for name, part in zip(names, parts, strict=True)}
""",
            ),
        ),
    ),
    fault_in(
        "forecasting",
        name="the absolute errors are averaged without weights",
        kind="metrics",
        cause="The metrics get no weights, so padded rows and missing values, whose error is set to 0, count as perfect forecasts.",
        file="steps.py",
        named=r"sample_weight|(metric|\bmae\b|absolute|update_state|averag|mean).*(weight|padd|mask|missing)|(weight|padd|mask|missing).*(metric|\bmae\b|absolute|averag|mean|count|perfect)",
        edits=(
            Edit(
                "steps.py", "update_state(absolute, weights[:, hour - 1])", "update_state(absolute)"
            ),
        ),
    ),
    fault_in(
        "forecasting",
        name="missing values are forecast as zero degrees",
        kind="labels",
        cause="nan_to_num makes each missing value a measurement of 0, so the mask of missing labels and the flags of missing inputs find nothing, and 0 degrees are learned and scored.",
        file="data.py",
        named=r"nan|missing|(fill|replac|imput).*(zero|0)|zeros? (as|for|label|value|degree)|outlier|\b0(\.0)?\b.*(label|value|degree)",
        edits=(
            Edit(
                "data.py",
                """usecols=COLUMNS)
""",
                """usecols=COLUMNS)
    rows = np.nan_to_num(rows)
""",
            ),
            Edit(
                "data.py",
                '"""Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing."""',
                '"""Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE)."""',
            ),
        ),
    ),
    fault_in(
        "forecasting",
        name="the counters that halve the learning rate aren't in checkpoints",
        kind="state",
        cause="The best loss and the count of the callback are local variables of a closure; without get_state and set_state no checkpoint has them, so a resumed run starts with an infinite best and no count.",
        file="callbacks.py",
        named="resum|checkpoint|get_state|set_state|closure|nonlocal|state of (the |a )?callback|callback.*(state|save|restor)|plateau|interrupt|restor",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
""",
                "",
            ),
            Edit(
                "optimizer.py",
                "keras.optimizers.Adam(schedule)",
                "keras.optimizers.Adam(task.learning_rate)",
            ),
            Edit(
                "config.py",
                "# learning rate at the start; decays to 0 along a cosine",
                "# learning rate at the start; halved where the loss stops falling",
            ),
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
from .config import TaskConfig
""",
                """from ..engine.callbacks import Callback, Event, every_validation
from .config import TaskConfig

PATIENCE = 3  # validations without a new best until the learning rate is halved
""",
            ),
            Edit(
                "callbacks.py",
                """    return []
""",
                """    best, waited = float("inf"), 0

    def halve_on_plateau(event: Event) -> None:
        nonlocal best, waited
        loss = event.history[-1]["validation_loss"]
        waited = 0 if loss < best else waited + 1
        best = min(best, loss)
        if waited == PATIENCE:
            event.run.optimizers["main"].learning_rate = event.learning_rates["main"] / 2
            waited = 0

    return [every_validation(halve_on_plateau)]
""",
            ),
        ),
    ),
    fault_in(
        "finetuning",
        name="both callbacks see the last value of the loop variable",
        kind="callbacks",
        cause="The lambdas look `trainable` up when they are called, when the comprehension is over and it is False, so the callback of --frozen-steps freezes the backbone again.",
        file="callbacks.py",
        named="late.?bind|closure|lambda|loop variable|comprehension|(never|not|stay|remain|still|always|whole).*(unfr|froz|train|chang|updat|move|learn)|(froz|freez|backbone|layers?|weights?|variables?).*(never|not |stay|remain|still|always|whole|no )",
        edits=(
            Edit(
                "callbacks.py",
                """    return [
        at_step(0, lambda event: set_trainable(event, False)),
        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),
    ]
""",
                """    return [
        at_step(step, lambda event: set_trainable(event, trainable))
        for step, trainable in ((task.frozen_steps, True), (0, False))
    ]
""",
            ),
        ),
    ),
    fault_in(
        "finetuning",
        name="the square that is cut out is drawn once by NumPy",
        kind="augmentation",
        cause="np.random is called when tf.data traces the augmentation, once, so the same square is cut out of every training image of the run; random numbers must come from tf.random.stateless_* with the seed.",
        file="data.py",
        named=r"np\.random|numpy|trac|stateless|(same|one|fixed|constant|once|single).*(square|mask|place|random|augment|pixel|cut|hole|step|batch|number)|(square|mask|random|augment|pixels?|cut).*(same|once|fixed|constant|always|never|every|zero|black|seed)",
        edits=(
            Edit(
                "data.py",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
SIDE = 4  # pixels, of the square that is cut out of training images
""",
            ),
            Edit(
                "data.py",
                """        images, labels, weights = batch
""",
                """        images, labels, weights = batch
        height, width = images.shape[1:3]
        top = np.random.randint(0, height - SIDE + 1)
        left = np.random.randint(0, width - SIDE + 1)
        mask = np.ones((height, width, 1), "float32")
        mask[top : top + SIDE, left : left + SIDE] = 0
        images = images * tf.constant(mask, images.dtype)
""",
            ),
        ),
    ),
    fault_in(
        "finetuning",
        name="weight decay with the wrong sign",
        kind="optimizer",
        cause="The decay is subtracted from the gradient, which the optimizer subtracts from the weight: weights grow instead of decaying.",
        file="optimizer.py",
        named="decay|sign|process_gradients|(weight|norm)s?.*(grow|increas|away|larger|explod|diverg)|subtract",
        edits=(
            Edit(
                "optimizer.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig

WEIGHT_DECAY = 1e-2
""",
            ),
            Edit(
                "optimizer.py",
                """    return gradients
""",
                """    return [
        gradient - WEIGHT_DECAY * tf.convert_to_tensor(variable.value)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
""",
            ),
        ),
    ),
    fault_in(
        "finetuning",
        name="clone_model leaves the pretrained weights behind",
        kind="weights",
        cause="clone_model copies the architecture only; the clone has new random weights and normalization statistics of 0 and 1.",
        file="model.py",
        named=r"clone|pre.?train|(random|new|initial|fresh).*(weight|backbone|value)|(weight|backbone).*(random|initial|lost|not (loaded|copied|those|used)|fresh|scratch|seed|file)|backbone\.keras|set_weights|from scratch",
        edits=(
            Edit(
                "model.py",
                """    backbone = load_in_precision(BACKBONE)
""",
                """    backbone = keras.models.clone_model(load_in_precision(BACKBONE))  # a copy of our own
""",
            ),
        ),
    ),
    fault_in(
        "two_heads",
        name="training images are standardized by the augmentation only",
        kind="data",
        cause="Each image is standardized inside create_augment, which only training batches go through; validation, test and predict give the model images in [0, 1].",
        file="data.py",
        named=r"standardi|normali[sz]|(scale|range|mean|variance|distribution|statistic|preprocess|magnitude|negative).*(train|validat|test|evaluat|augment|differ|image)|(train|validat|test|evaluat|augment\w*).*(scale|range|mean|variance|preprocess|other input|distribution|statistic|differ)|per.?image",
        edits=(
            Edit(
                "data.py",
                """        images, labels, weights = batch
""",
                """        images, labels, weights = batch
        mean, variance = tf.nn.moments(images, [1, 2, 3], keepdims=True)
        images = (images - mean) / tf.sqrt(variance + 1e-6)  # of each image: 0 and 1
""",
            ),
        ),
    ),
    fault_in(
        "two_heads",
        name="labels of class zero count as missing",
        kind="labels",
        cause="Missing labels are -1, and the weights ask for labels > 0, so class 0 of each head, the digit 0 and odd numbers, is left out of losses, counts and metrics.",
        file="losses.py",
        named=r">\s?=?\s?0|class(es)? (of )?(0|zero)|label(s)? (of |is |are )?(0|zero)|(zero|0)\b.*(missing|left out|ignored|mask|weight|class|count|label|dropped)|weights_of_heads|odd|(mask|missing|ignor|left out).*(label|class|zero|0)|one class",
        edits=(
            Edit(
                "losses.py",
                "tf.cast(labels[head] >= 0, weights.dtype)",
                "tf.cast(labels[head] > 0, weights.dtype)",
            ),
        ),
    ),
    fault_in(
        "two_heads",
        name="both heads are divided by the number of digits",
        kind="loss",
        cause="The loss of the head `even` is divided by the count of labeled digits, four times as many as it has labels itself.",
        file="steps.py",
        named="global_count|denominator|divid|(count|number).*(digit|even|head|label|other)|(even|head|term).*(count|too small|scale|quarter|weight|average|mean|smaller)|not (a|the) (mean|average)|averag",
        edits=(
            Edit(
                "steps.py",
                """    terms = {}
""",
                """    terms, labeled = {}, replica.global_count["digit"]
""",
                "*",
            ),
            Edit(
                "steps.py",
                "global_batch_size=replica.global_count[head]",
                "global_batch_size=labeled",
                "*",
            ),
        ),
    ),
    fault_in(
        "two_heads",
        name="gradient noise of its own on every replica",
        kind="distribution",
        cause="process_gradients runs on every replica after the sum, and tf.random.normal draws other noise on each, so the replicas apply different gradients and their copies of the weights drift apart.",
        file="optimizer.py",
        named=r"tf\.random\.normal|stateful|(noise|random|process_gradients|gradients?).*(replica|resum|repeat|reproduc|seed|differ|same|not those|equal|stateless)|replicas?.*(drift|diverg|differ|noise|random|apart|equal|same)|diverg|drift",
        edits=(
            Edit(
                "optimizer.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig

NOISE = 1e-3  # standard deviation of what is added to each gradient (Neelakantan et al., 2015)
""",
            ),
            Edit(
                "optimizer.py",
                """    return gradients
""",
                """    return [g + tf.random.normal(g.shape, stddev=NOISE, dtype=g.dtype) for g in gradients]
""",
            ),
        ),
    ),
    fault_in(
        "distillation",
        name="the accuracy of validation and test is the teacher's",
        kind="metrics",
        cause="The validation step, which is the test step too, gives the metric the teacher's logits instead of the student's.",
        file="steps.py",
        named="teacher|taught|accuracy.*(constant|same|not depend|never|student|change|model|output|logits|differ)|(constant|same).*accuracy|metric.*(logits|model|student|constant)",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, logits, weights)',
                'run.metrics["accuracy"].update_state(labels, taught, weights)',
                "validation_step",
            ),
        ),
    ),
    fault_in(
        "distillation",
        name="the loss is a mean over the replica's own rows",
        kind="distribution",
        cause="The loss is divided by the rows of one replica's micro-batch instead of replica.global_count; the engine sums over replicas, so it is N times too large on N replicas, and padded rows count as examples.",
        file="losses.py",
        named=r"global_count|global_batch|reduce_mean|compute_average_loss|(number|many|several|other|more|\bN\b|two|four|\d) (of )?replicas|replicas.*(loss|gradient|sum|mean|scale|time|differ)|padd|local (batch|mean)|per.?replica|own (rows|batch)|micro.?batch|divid|denominator",
        edits=(
            Edit(
                "losses.py",
                """    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
""",
                """    loss = tf.reduce_mean(per_example * weights)
""",
            ),
        ),
    ),
    fault_in(
        "distillation",
        name="the teacher is loaded as a model that trains",
        kind="weights",
        cause="load_in_precision doesn't freeze, so the teacher is one of the models that the optimizer trains, and the soft loss moves the teacher towards the student (neither load_frozen nor stop_gradient).",
        file="model.py",
        named="load_frozen|stop_gradient|(teacher).*(train|froz|freez|chang|updat|gradient|optimi|move|fixed)|(train|froz|freez|chang|updat|gradient|optimi).*(teacher)|auxiliary|gradient.*(target|labels?)",
        edits=(
            Edit(
                "model.py",
                """import load_frozen
""",
                """import load_in_precision
""",
            ),
            Edit(
                "model.py",
                '"teacher": load_frozen(TEACHER)',
                '"teacher": load_in_precision(TEACHER)',
            ),
            Edit("steps.py", "run.model(images,", 'run.models["student"](images,', "*"),
            Edit("steps.py", "run.model, replica", 'run.models["student"], replica', "*"),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, images)",
                'predict_in_parts(run.models["student"], images)',
            ),
        ),
    ),
    fault_in(
        "distillation",
        name="half of the digits are turned upside down under their old labels",
        kind="augmentation",
        cause="A digit turned by 180 degrees is another one or none: a 6 becomes a 9 and a 9 a 6, and the labels stay.",
        file="data.py",
        named=r"180|upside|turn(ed)?\b|rotat|flip|mirror|\b6\b.*\b9\b|(augment\w*).*(label|class|meaning|strong|too|harm|destroy|accura|learn|validat)|(label|class).*(augment|contradict|chang|no longer)",
        edits=(
            Edit(
                "data.py",
                """        images, labels, weights = batch
""",
                """        images, labels, weights = batch
        shape = (images.shape[0], 1, 1, 1)
        turned = tf.random.stateless_uniform(shape, seed + [1, 0]) < 0.5
        images = tf.where(turned, images[:, ::-1, ::-1], images)  # by 180 degrees
""",
            ),
        ),
    ),
)

TASKS: tuple[Change, ...] = ()
